"""Element types of a KV body. Names are those of torch and safetensors' long forms; codes are the header's byte."""

from __future__ import annotations

from enum import IntEnum

from pdwire.errors import LocalProtocolError


class DType(IntEnum):
    """Little-endian elements. Code 0 is left to frames that carry no tensor."""

    FLOAT32 = 1
    FLOAT16 = 2
    BFLOAT16 = 3
    FLOAT8_E4M3FN = 4
    FLOAT8_E5M2 = 5

    __hash__ = int.__hash__  # as for Kind

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]

    @property
    def label(self) -> str:
        """The name in configurations, HELLO and messages: `bfloat16`."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> DType:
        """Raises LocalProtocolError, naming the known ones."""
        try:
            return _BY_LABEL[label]
        except KeyError:
            known = ", ".join(_BY_LABEL)
            raise LocalProtocolError(f"unknown dtype {label!r} (known: {known})") from None


_ITEMSIZE = {
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.FLOAT8_E4M3FN: 1,
    DType.FLOAT8_E5M2: 1,
}
_BY_LABEL = {dtype.label: dtype for dtype in DType}
