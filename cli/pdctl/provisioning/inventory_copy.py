"""Keeps a copy of an inventory: regular files, bounded in size and number, whatever else lies beside them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_BYTES = 4 << 20
MAX_TOTAL_BYTES = 64 << 20
MAX_FILES = 5000


def copy_regular(paths: list[Path], target: Path) -> list[str]:
    """Copies files and folders into `target`, mode 0600 and 0700. Returns `PATH: why` for each thing left out.

    A path of the list may itself be a link, for the user named it or keeps it beside the inventory; inside a folder
    a link is followed only to a regular file of that same folder.
    """
    left_out: list[str] = []
    size = 0
    for seen, (path, relative, root) in enumerate(_below(paths, left_out)):
        if seen == MAX_FILES:
            left_out.append(f"{path}: more than {MAX_FILES} files; this and what follows is not copied")
            break
        try:
            content = _content(path, root, min(MAX_FILE_BYTES, MAX_TOTAL_BYTES - size))
            copy = target / relative
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except _LeftOut as why:
            left_out.append(f"{path}: {why}")
            continue
        with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(content)
        size += len(content)
    return left_out


class _LeftOut(Exception):
    """The text says why."""


def _below(paths: list[Path], left_out: list[str]) -> Iterator[tuple[Path, Path, Path | None]]:
    """(file, where it goes, the folder it must lie in or None). Walks into folders, never through a link."""
    for top in paths:
        if not top.is_dir():
            yield top, Path(top.name), None
            continue
        root = top.resolve()
        name = Path(top.absolute().name if top.name not in ("", "..") else root.name)

        def unreadable(error: OSError) -> None:
            left_out.append(f"{error.filename}: {error.strerror}")

        for folder, folders, names in os.walk(root, onerror=unreadable):
            here = Path(folder)
            left_out.extend(f"{here / each}: a link to a folder" for each in folders if (here / each).is_symlink())
            folders[:] = sorted(each for each in folders if each != ".git" and not (here / each).is_symlink())
            for each in sorted(names):
                yield here / each, name / (here / each).relative_to(root), root


def _content(path: Path, root: Path | None, limit: int) -> bytes:
    """Raises _LeftOut unless `path` is a regular file of at most `limit` bytes, inside `root` if there is one."""
    try:
        if root is not None and path.is_symlink() and not path.resolve(strict=True).is_relative_to(root):
            raise _LeftOut("a link out of its folder")
        # Not blocking: a FIFO without a writer would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _LeftOut("not a regular file")
            content = stream.read(limit + 1)
    except (OSError, RuntimeError) as error:
        # RuntimeError: how pathlib reports a loop of links before Python 3.13.
        raise _LeftOut(getattr(error, "strerror", None) or "a loop of links") from error
    if len(content) > limit:
        raise _LeftOut(f"larger than the {limit} bytes that are left to copy")
    return content
