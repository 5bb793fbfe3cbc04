"""A tar archive from a stranger, plain or compressed, read forward under bounds on time and memory."""

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Protocol

MAX_HEADER_BYTES = 256 << 10
"""For all headers of one member together: names and attributes are short."""
MAX_WINDOW_BYTES = 64 << 20
"""What a Zstandard stream may make the reader keep; `zstd -19` needs 8 MiB."""
_CHUNK = 64 << 10


class _Zstandard:
    """Decompresses forward. tarfile steps back by one byte between members, which the library cannot do."""

    def __init__(self, stream: IO[bytes]) -> None:
        import zstandard

        self._broken = zstandard.ZstdError
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._reader = decompressor.stream_reader(stream, read_across_frames=True, closefd=False)
        self._position, self._last, self._again = 0, b"", False

    def read(self, size: int = -1) -> bytes:
        data = self._last if self._again and size else b""
        self._again = self._again and not data
        while len(data) < size:
            try:
                piece = self._reader.read(size - len(data))
            except self._broken as error:
                raise OSError(str(error)) from error
            if not piece:
                break
            data += piece
        self._position += len(data)
        self._last = data[-1:] or self._last
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset == self._position - 1 and not self._again:
            self._position, self._again = offset, True
        while self._position < offset and self.read(min(_CHUNK, offset - self._position)):
            pass
        if self._position > offset:
            raise OSError("the archive is read forward only")
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self._reader.close()  # type: ignore[no-untyped-call]


_Stream = IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile | _Zstandard
_OPENERS: tuple[tuple[bytes, Callable[[IO[bytes]], _Stream]], ...] = (
    (b"\x1f\x8b", lambda stream: gzip.GzipFile(fileobj=stream)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"\x28\xb5\x2f\xfd", _Zstandard),
)

UNREADABLE = (OSError, EOFError, ValueError, RecursionError, tarfile.TarError, zlib.error, lzma.LZMAError)
"""What a torn or hostile archive makes the readers of the standard library raise."""


class TooLarge(Exception):
    """The archive goes past a bound; the text says which."""


class Spend(Protocol):
    def __call__(self, size: int) -> None: ...


def is_archive(path: Path) -> bool:
    """By its first block: a compressed stream, or a tar header whose checksum is right. Zeros are neither."""
    with path.open("rb") as stream:
        block = stream.read(tarfile.BLOCKSIZE)
    if _opener(block) is not None:
        return True
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def members(
    path: Path, limit: int, most: int, spend: Spend, wanted: Callable[[str], bool]
) -> Generator[tuple[str, bytes | None], None, None]:
    """(name, content) of each regular member; the content is None of one that is not wanted.

    Links and devices are never followed; they come with their name and None. Nothing is written anywhere.
    limit: bytes of the archive when decompressed. most: bytes that are read of one member (one more tells that it is
    longer). spend: is told the size of each member, 0 for what is not read, before its content is; may raise.
    Raises TooLarge and what UNREADABLE names.
    """
    with ExitStack() as stack:
        stream = stack.enter_context(path.open("rb"))
        opener = _opener(stream.read(8))
        stream.seek(0)
        whole: _Stream = stream
        if opener is not None:
            whole = opener(stream)
            stack.callback(whole.close)
        source = _Forward(whole, limit)
        archive = stack.enter_context(tarfile.open(fileobj=source, mode="r:"))  # type: ignore[call-overload]
        while (member := archive.next()) is not None:
            source.renew()
            reads = member.isreg() and wanted(member.name)
            spend(member.size if reads else 0)
            content = archive.extractfile(member) if reads else None
            if content is None:
                if not member.isdir():
                    yield member.name, None
                continue
            pieces: list[bytes] = []
            left = most
            while left > 0 and (piece := content.read(min(_CHUNK, left))):
                pieces.append(piece)
                left -= len(piece)
                source.renew()
            yield member.name, b"".join(pieces)
            source.renew()


class _Forward:
    """What tarfile reads from. It asks for a whole header at once, however long that says it is: refused here."""

    def __init__(self, stream: _Stream, limit: int) -> None:
        self._stream, self._limit = stream, limit
        self._left = MAX_HEADER_BYTES

    def renew(self) -> None:
        self._left = MAX_HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._left:
            raise TooLarge(f"a header of it is longer than {MAX_HEADER_BYTES >> 10} KiB")
        self._left -= size
        self._check(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._check(offset)
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise TooLarge(f"it goes on after {self._limit >> 20} MiB")


def _opener(head: bytes) -> Callable[[IO[bytes]], _Stream] | None:
    return next((opener for magic, opener in _OPENERS if head.startswith(magic)), None)
