"""Evidence from files: a file, a folder, a tar archive, or `-` for stdin. Everything is bounded before it is read."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pdchecks.evidence import Block, Evidence, by_node, read_blocks
from pdctl import bounded_tar
from pdctl.errors import UsageError

MAX_FILE_BYTES = 64 << 20
MAX_TOTAL_BYTES = 512 << 20
MAX_FILES = 20_000

_FORMAT = "evidence is blocks of `=== cmd: COMMAND`, `=== rc: N`, the output, `=== end`"
_SMALLER = "give the nodes' own folders or files"


@dataclass(frozen=True, slots=True)
class Source:
    """evidence: one entry a node. skipped: names of files that hold no block."""

    evidence: tuple[Evidence, ...]
    skipped: tuple[str, ...]


def read_sources(names: list[str]) -> Source:
    """Everything that the names hold. Raises UsageError where one is unreadable or none has a block."""
    blocks: list[tuple[str, list[Block]]] = []
    skipped: list[str] = []
    for name in names:
        for label, node, text in _texts(name):
            found = read_blocks(text)
            if found:
                blocks.append((node, found))
            else:
                skipped.append(label)
    if not blocks:
        raise UsageError(f"no evidence in {', '.join(f'`{name}`' for name in names)}", hint=_FORMAT)
    grouped: dict[str, list[Block]] = {}
    for node, found in blocks:
        for evidence in by_node(found, node):
            grouped.setdefault(evidence.node, []).extend(evidence.blocks)
    return Source(tuple(Evidence(node, tuple(group)) for node, group in grouped.items()), tuple(skipped))


def _texts(name: str) -> Iterator[tuple[str, str, str]]:
    """(what to call it, its node unless it says so itself, text) of each file."""
    if not name:
        raise UsageError("`--from` names nothing", hint="give a FILE, a DIR, a TAR, or `-` for stdin")
    if name == "-":
        # Python has no stdin object when the descriptor was closed.
        if sys.stdin is None:
            raise UsageError("`--from -` reads stdin, which is closed", hint="pipe the evidence in, or name a file")
        yield "stdin", "stdin", _decode(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "stdin")
        return
    path = Path(name)
    try:
        if path.is_dir():
            yield from _folder(path)
            return
        if path.exists() and not path.is_file():
            raise UsageError(
                f"`{name}` is neither a file nor a folder", hint="pipe into `--from -` what a device or a FIFO gives"
            )
        if bounded_tar.is_archive(path):
            yield from _archive(path)
        else:
            yield str(path), path.stem, _decode(_read(path), str(path))
    except bounded_tar.TooLarge as error:
        raise UsageError(f"`{name}` is too large to read", detail=str(error), hint=_SMALLER) from error
    except bounded_tar.UNREADABLE as error:
        raise UsageError(f"cannot read `{name}`", detail=str(error)) from error


def _folder(root: Path) -> Iterator[tuple[str, str, str]]:
    budget = _Budget(str(root))
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = _read(path)
            budget.spend(len(data))
            yield str(path), _node(PurePosixPath(path.relative_to(root).as_posix())), _decode(data, str(path))


def _archive(path: Path) -> Iterator[tuple[str, str, str]]:
    budget = _Budget(str(path))
    # Beside the contents, each member has a header and padding.
    limit = MAX_TOTAL_BYTES + MAX_FILES * 1024
    for name, data in bounded_tar.members(path, limit, MAX_FILE_BYTES + 1, budget.spend):
        label = f"{path}:{name}"
        yield label, _node(PurePosixPath(name)), _decode(data, label)


class _Budget:
    """Keeps a folder or an archive from filling the memory."""

    def __init__(self, name: str) -> None:
        self._name, self._bytes, self._files = name, 0, 0

    def spend(self, size: int) -> None:
        self._bytes += size
        self._files += 1
        if self._bytes > MAX_TOTAL_BYTES or self._files > MAX_FILES:
            raise UsageError(
                f"`{self._name}` is too large to read",
                detail=f"the bound is {MAX_FILES} files and {MAX_TOTAL_BYTES >> 20} MiB together",
                hint=_SMALLER,
            )


def _node(relative: PurePosixPath) -> str:
    """A file in a folder belongs to the node that the folder is named after; one at the top, to its own name."""
    parts = [part for part in relative.parts if part not in (".", "/")]
    return parts[0] if len(parts) > 1 else relative.stem


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size > MAX_FILE_BYTES:
            raise _too_long(str(path))
        return stream.read(MAX_FILE_BYTES + 1)


def _decode(data: bytes, label: str) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise _too_long(label)
    return data.decode("utf-8", "surrogateescape")


def _too_long(label: str) -> UsageError:
    return UsageError(f"`{label}` is larger than {MAX_FILE_BYTES >> 20} MiB", hint="cut it, or split it by node")
