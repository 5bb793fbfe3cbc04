"""Texts to lint: files, folders, stdin. Bounded before they are read; what is no text is named, not guessed at."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pdchecks.lint.registry import RULES
from pdchecks.lint.rule import Rule
from pdctl.errors import UsageError

MAX_FILE_BYTES = 4 << 20
MAX_FILES = 20_000
_HIDDEN = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}


@dataclass(frozen=True, slots=True)
class ReadText:
    name: str
    content: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """named: whether the command line names it, and not only a folder that holds it."""

    name: str
    why: str
    named: bool


@dataclass(frozen=True, slots=True)
class Texts:
    texts: tuple[ReadText, ...]
    skipped: tuple[Skipped, ...]

    @property
    def skipped_by_name(self) -> bool:
        return any(skipped.named for skipped in self.skipped)


def read_texts(names: Sequence[str]) -> Texts:
    """Everything below the names. Raises UsageError where one does not exist."""
    texts: list[ReadText] = []
    skipped: list[Skipped] = []
    for name in names:
        if name == "-":
            if sys.stdin is None:
                raise UsageError("`-` reads stdin, which is closed", hint="pipe the text in, or name a file")
            _take("stdin", sys.stdin.buffer.read(MAX_FILE_BYTES + 1), True, texts, skipped)
            continue
        path = Path(name)
        if not path.exists():
            raise UsageError(f"no file or folder `{name}`")
        for file in _files(path):
            try:
                with file.open("rb") as stream:
                    data = stream.read(MAX_FILE_BYTES + 1)
            except OSError as error:
                skipped.append(Skipped(str(file), error.strerror or str(error), True))
                continue
            _take(str(file), data, file == path, texts, skipped)
            if len(texts) > MAX_FILES:
                raise UsageError(f"`{name}` holds more than {MAX_FILES} files", hint="name the folders with runbooks")
    return Texts(tuple(texts), tuple(skipped))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in _HIDDEN)
        yield from (file for name in sorted(names) if (file := Path(folder) / name).is_file() and not file.is_symlink())


def _take(name: str, data: bytes, named: bool, texts: list[ReadText], skipped: list[Skipped]) -> None:
    if len(data) > MAX_FILE_BYTES:
        skipped.append(Skipped(name, f"larger than {MAX_FILE_BYTES >> 20} MiB", named))
    elif b"\0" in data[:8192]:
        skipped.append(Skipped(name, "no text: it holds zero bytes", named))
    else:
        texts.append(ReadText(name, data.decode("utf-8", "replace")))


def selected_rules(select: Sequence[str], ignore: Sequence[str]) -> list[Rule]:
    """The rules whose ID begins with one of select and with none of ignore. Raises UsageError for an unknown prefix."""
    for prefix in (*select, *ignore):
        if not any(rule.id.startswith(prefix.upper()) for rule in RULES):
            raise UsageError(f"no lint rule begins with `{prefix}`", hint="`pdctl checks list --lint` names them all")
    wanted = tuple(prefix.upper() for prefix in select) or ("",)
    unwanted = tuple(prefix.upper() for prefix in ignore)
    return [rule for rule in RULES if rule.id.startswith(wanted) and not rule.id.startswith(unwanted)]
