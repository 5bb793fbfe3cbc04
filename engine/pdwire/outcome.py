"""What a verdict is made of. Who fills it: `rules`. Who asks for it: `compat.verdict`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Conversion(StrEnum):
    """What a pair of engines may be able to convert on the way. None of them is assumed."""

    DTYPE = "dtype"
    """float16 and bfloat16 to float32, which keeps every value."""
    ROUNDING = "rounding"
    """float32, float16 and bfloat16 to each other, rounded to nearest, ties to even."""
    TP = "tp"
    """KV heads regrouped between tensor-parallel ranks."""
    BLOCK = "block"
    """Whole blocks of one size cut into blocks of another."""
    LAYOUT = "layout"
    """Token-major and head-major exchanged, packed blocks unpacked."""
    BYTE_ORDER = "byte-order"
    """The bytes of each element reversed."""


class Outcome(StrEnum):
    EQUAL = "equal"
    CONVERTIBLE = "convertible"
    FATAL = "fatal"


class Side(StrEnum):
    """Which side the fix is for."""

    PREFILL = "prefill"
    DECODE = "decode"
    EITHER = "either side"
    BOTH = "both sides"
    NONE = "nothing to do"


@dataclass(frozen=True, slots=True)
class FieldVerdict:
    """One field. reason: for a convertible one how, for a fatal one why. exact: the conversion keeps every bit."""

    field: str
    outcome: Outcome
    prefill: str
    decode: str
    reason: str = ""
    exact: bool = True
    side: Side = Side.NONE
    fix: str = ""

    def __str__(self) -> str:
        values = f"{self.field}: prefill {self.prefill}, decode {self.decode}"
        if self.outcome is Outcome.EQUAL:
            return f"equal: {self.field}: {self.prefill}"
        if self.outcome is Outcome.CONVERTIBLE:
            return f"convertible ({'exact' if self.exact else 'not exact'}): {values}: {self.reason}"
        return f"fatal: {values}: {self.reason}; fix ({self.side}): {self.fix}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All fields, in the order of `rules.RULES`."""

    prefill: str
    decode: str
    fields: tuple[FieldVerdict, ...]

    @property
    def ok(self) -> bool:
        return not self.fatal

    @property
    def exact(self) -> bool:
        """Decode gets, to the bit, the KV that it would have computed itself on the prefill side's engine."""
        return self.ok and all(field.exact for field in self.fields)

    @property
    def fatal(self) -> tuple[FieldVerdict, ...]:
        return tuple(field for field in self.fields if field.outcome is Outcome.FATAL)

    @property
    def differing(self) -> tuple[FieldVerdict, ...]:
        return tuple(field for field in self.fields if field.outcome is not Outcome.EQUAL)

    def __str__(self) -> str:
        pair = f"{self.prefill} -> {self.decode}"
        if self.ok:
            return f"{pair}: compatible" + "".join(f"; {field}" for field in self.differing)
        return f"{pair}: incompatible; " + "; ".join(map(str, self.fatal))
