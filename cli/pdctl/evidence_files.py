"""Files from a stranger: one file, a folder, a tar archive, stdin. Everything is bounded before memory is taken.

Links are never followed, names never become paths of this host, and nothing is written."""

import codecs
import os
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from pdctl import bounded_tar
from pdctl.errors import UsageError

MAX_FILE_BYTES = 64 << 20
MAX_TOTAL_BYTES = 512 << 20
MAX_FILES = 20_000
# A capture holds much that is not read: it is passed by, not kept.
MAX_PASSED_BYTES = 4 << 30
MAX_PASSED_FILES = 200_000

_NO_TAR = (
    "what is compressed must be a whole tar archive; a compressed text goes through `zcat FILE | pdctl doctor --from -`"
)
_SMALLER = "give the nodes' own folders or files"


@dataclass(frozen=True, slots=True)
class File:
    """label: what to call it. path: inside what was named, with `/`. text: None with the reason where it was not read,
    an empty one where nobody wanted it.

    single: it was named itself.
    """

    label: str
    path: str
    text: str | None
    reason: str = ""
    single: bool = False


Wanted = Callable[[str], bool]


def read_files(name: str, choose: Callable[[Iterable[str]], Wanted]) -> Iterator[File]:
    """Everything that the name holds. Raises UsageError.

    choose: gets the paths inside a folder or an archive, as far as it asks for them, and says which are to be read.
    """
    if not name:
        raise UsageError("`--from` names nothing", hint="give a FILE, a DIR, a TAR, or `-` for stdin")
    if name == "-":
        # Python has no stdin object when the descriptor was closed.
        if sys.stdin is None:
            raise UsageError("`--from -` reads stdin, which is closed", hint="pipe the evidence in, or name a file")
        yield from _stdin(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), choose)
        return
    path = Path(name)
    try:
        if path.is_dir():
            yield from _folder(path, choose)
            return
        if path.exists() and not path.is_file():
            raise UsageError(
                f"`{name}` is neither a file nor a folder", hint="pipe into `--from -` what a device or a FIFO gives"
            )
        if bounded_tar.is_archive(path):
            yield from _archive(path, choose)
        else:
            data = _read(path)
            if data is None:
                raise _too_long(name)
            yield File(name, path.name, _text(data), single=True)
    except bounded_tar.TooLarge as error:
        raise UsageError(f"`{name}` is too large to read", detail=str(error), hint=_SMALLER) from error
    except bounded_tar.UNREADABLE as error:
        torn = isinstance(error, tarfile.TarError)
        raise UsageError(f"cannot read `{name}`", detail=str(error), hint=_NO_TAR if torn else None) from error


def _stdin(data: bytes, choose: Callable[[Iterable[str]], Wanted]) -> Iterator[File]:
    """Text, or an archive, which is read twice and needs a file of its own for that."""
    if len(data) > MAX_FILE_BYTES:
        raise _too_long("stdin")
    with NamedTemporaryFile() as copy:
        copy.write(data)
        copy.flush()
        if not bounded_tar.is_archive(Path(copy.name)):
            yield File("stdin", "stdin", _text(data), single=True)
            return
        try:
            for file in _archive(Path(copy.name), choose):
                yield replace(file, label=f"stdin:{file.path}")
        except bounded_tar.TooLarge as error:
            raise UsageError("stdin is too large to read", detail=str(error), hint=_SMALLER) from error
        except bounded_tar.UNREADABLE as error:
            raise UsageError("cannot read the archive on stdin", detail=str(error), hint=_NO_TAR) from error


def archives(name: str) -> list[str]:
    """The archives that lie in a folder, as bundles and captures of a fleet do: each is a name of its own."""
    return [str(path) for path in sorted(Path(name).iterdir()) if _archived(path)] if Path(name).is_dir() else []


def _archived(path: Path) -> bool:
    try:
        return not path.is_symlink() and path.is_file() and bounded_tar.is_archive(path)
    except OSError:
        return False


LINK = "a link or device, not followed"
_LONG = f"larger than {MAX_FILE_BYTES >> 20} MiB"


def _folder(root: Path, choose: Callable[[Iterable[str]], Wanted]) -> Iterator[File]:
    budget = _Budget(str(root))
    found = [path for path in sorted(root.rglob("*")) if path.is_symlink() or not path.is_dir()]
    wanted = choose(path.relative_to(root).as_posix() for path in found)
    for path in found:
        inner, label = path.relative_to(root).as_posix(), str(path)
        if path.is_symlink() or not path.is_file():
            budget.spend(0)
            yield File(label, inner, None, LINK)
        elif path.parent == root and _archived(path):
            continue
        elif not wanted(inner):
            budget.spend(0)
            yield File(label, inner, None)
        else:
            try:
                data = _read(path)
            except OSError as error:
                # Files of sysfs that a driver does not answer give EINVAL.
                yield File(label, inner, None, error.strerror or str(error))
                continue
            budget.spend(len(data or b""))
            yield File(label, inner, None, _LONG) if data is None else File(label, inner, _text(data))


def _archive(path: Path, choose: Callable[[Iterable[str]], Wanted]) -> Iterator[File]:
    # The names first, on a way of their own: what is worth reading depends on what else is there.
    names = bounded_tar.members(path, MAX_PASSED_BYTES, 0, _Budget(str(path)).spend, lambda name: False)
    wanted = choose(name for name, _ in names)
    names.close()
    budget = _Budget(str(path))
    for name, data in bounded_tar.members(path, MAX_PASSED_BYTES, MAX_FILE_BYTES + 1, budget.spend, wanted):
        label = f"{path}:{name}"
        if data is None:
            yield File(label, name, None, LINK if wanted(name) else "")
        elif len(data) > MAX_FILE_BYTES:
            yield File(label, name, None, _LONG)
        else:
            yield File(label, name, _text(data))


class _Budget:
    """Keeps a folder or an archive from filling the memory. What is not read costs a name."""

    def __init__(self, name: str) -> None:
        self._name, self._bytes, self._read, self._passed = name, 0, 0, 0

    def spend(self, size: int) -> None:
        self._bytes += size
        self._read += size > 0
        self._passed += size == 0
        if self._bytes > MAX_TOTAL_BYTES or self._read > MAX_FILES or self._passed > MAX_PASSED_FILES:
            raise UsageError(
                f"`{self._name}` is too large to read",
                detail=f"the bound is {MAX_FILES} files and {MAX_TOTAL_BYTES >> 20} MiB together",
                hint=_SMALLER,
            )


def _read(path: Path) -> bytes | None:
    """None where it is too long."""
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size > MAX_FILE_BYTES:
            return None
        data = stream.read(MAX_FILE_BYTES + 1)
    return None if len(data) > MAX_FILE_BYTES else data


def _text(data: bytes) -> str:
    # PowerShell redirects in UTF-16, and editors of Windows put a mark before UTF-8.
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def _too_long(label: str) -> UsageError:
    return UsageError(f"`{label}` is larger than {MAX_FILE_BYTES >> 20} MiB", hint="cut it, or split it by node")
