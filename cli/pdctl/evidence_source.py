"""Evidence from files: our own bundles and evidence files, captures of other tools, pasted text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pdchecks.evidence import Block, Evidence, own_blocks, read_blocks
from pdchecks.finding import Incomplete, Unrecognised
from pdchecks.intake.captures import Place, host, place
from pdchecks.intake.margin import without_margin
from pdchecks.intake.pasted import read_pasted
from pdctl.bundle_manifest import MANIFEST, Entry, read_manifest
from pdctl.errors import UsageError
from pdctl.evidence_files import LINK, File, Wanted, archives, read_files

_FORMAT = "evidence is blocks of `=== cmd: COMMAND`, `=== rc: N`, the output, `=== end`, or what a terminal showed"
_MARKS = ("begin", "end")
_ENDLESS = Incomplete("", "its evidence stops before the collector's end", "get the whole file, or collect again")
_INVOKED = "Invoked Command: "
# What a tree of sysfs holds becomes the lines of one block; its files have one line.
_SYSFS = "grep -H '' /sys/class/infiniband/* /sys/class/net/*/* /sys/bus/pci/devices/*/*_link_*"


@dataclass(slots=True)
class Source:
    """evidence: one entry a node. unrecognised: what was given and could not be read, each with its place or reason.

    policy: by node, what a bundle keeps of its site's policy.
    """

    evidence: tuple[Evidence, ...] = ()
    unrecognised: list[Unrecognised] = field(default_factory=list)
    incomplete: list[Incomplete] = field(default_factory=list)
    policy: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def read_sources(names: list[str]) -> Source:
    """Everything that the names hold. Raises UsageError where one is unreadable or there is no text in any."""
    source = Source()
    blocks: dict[str, list[Block]] = {}
    for name in names:
        for each in (name, *archives(name)):
            for node, found in _Reading(each, source).blocks(read_files(each, _worth_reading)):
                blocks.setdefault(node, []).extend(found)
    if not blocks and not source.incomplete and not any(each.line for each in source.unrecognised):
        why = "\n".join(f"{each.source}: {each.text}" for each in source.unrecognised[:20])
        raise UsageError(f"no evidence in {', '.join(f'`{name}`' for name in names)}", detail=why or None, hint=_FORMAT)
    source.evidence = tuple(Evidence(node, tuple(found)) for node, found in blocks.items())
    told = {each.node for each in source.incomplete}
    source.incomplete += [_ENDLESS._replace(node=each.node) for each in source.evidence if _endless(each, told)]
    return source


def _endless(evidence: Evidence, told: set[str]) -> bool:
    """Whether it is a run of our collector without its end, of which nobody has told yet."""
    began, ended = (any(block.command == f"pdctl-collect {mark}" for block in evidence.blocks) for mark in _MARKS)
    return began and not ended and evidence.node not in told


def _worth_reading(paths: Iterable[str]) -> Wanted:
    """All of our own and of what people put together; of a capture what a reader knows, among thousands of files."""
    for path in paths:
        if path == MANIFEST:
            break
        if place(path) is not None:
            return lambda path: place(path) is not None
    return lambda path: True


class _Reading:
    """One name of the command line."""

    def __init__(self, name: str, source: Source) -> None:
        self._name, self._source = name, source
        self._entries: dict[str, Entry] = {}
        self._sysfs: dict[str, list[str]] = {}
        self._passed = 0
        self._capture = False
        path = Path(name)
        while path.name in ("sys", "class", "infiniband", "net") and path.parent != path:
            path = path.parent
        self._root = path.name or name

    def blocks(self, files: Iterable[File]) -> list[tuple[str, list[Block]]]:
        """(node, its blocks) of each file."""
        found: list[tuple[str, list[Block]]] = []
        kept = list(files)
        self._capture = any(file.text is None and not file.reason for file in kept)
        self._manifest(kept)
        for file in kept:
            if file.text is None:
                self._pass(file)
            else:
                found += self._one(file, file.text)
        found += [(node, [_sysfs_block(lines)]) for node, lines in self._sysfs.items()]
        if self._passed:
            self._refuse(self._name, f"{self._passed} files of a capture, of which no reader knows one")
        return found

    def _manifest(self, files: list[File]) -> None:
        for file in files:
            if file.path == MANIFEST and file.text is not None and not file.single:
                entries = read_manifest(file.text)
                for entry in entries or ():
                    if entry.file:
                        self._entries[entry.file] = entry
                    if entry.incomplete:
                        self._source.incomplete.append(entry.incomplete)
                    if entry.policy:
                        self._source.policy[entry.node] = entry.policy
                if entries is not None:
                    files.remove(file)
                    return

    def _pass(self, file: File) -> None:
        # A capture is full of links; elsewhere one is worth a word.
        if file.reason and not (file.reason == LINK and self._capture):
            self._refuse(file.label, file.reason)
        else:
            self._passed += 1

    def _refuse(self, label: str, reason: str) -> None:
        self._source.unrecognised.append(Unrecognised(label, 0, reason, 0))

    def _one(self, file: File, text: str) -> list[tuple[str, list[Block]]]:
        if entry := self._entries.get(file.path):
            return [(entry.node, own_blocks(text))]
        default = _node(PurePosixPath(file.path))
        if blocks := read_blocks(text):
            return [(block.node or default, [block]) for block in blocks]
        if not file.single and (at := place(file.path)):
            return self._captured(at, text)
        if "\0" in text[:4096] or not text.strip():
            self._refuse(file.label, _no_text(text))
            return []
        plain = without_margin(text)
        if plain is not text and (blocks := read_blocks(plain)):
            return [(block.node or default, [block]) for block in blocks]
        pasted, left = read_pasted(plain)
        self._source.unrecognised += [Unrecognised(file.label, each.line, each.text, each.lines) for each in left]
        return [(block.node or default, [block]) for block in pasted]

    def _captured(self, at: Place, text: str) -> list[tuple[str, list[Block]]]:
        node = host(at.root or self._root)
        if at.sysfs:
            value = text.rstrip("\n")
            if value and "\n" not in value:
                self._sysfs.setdefault(node, []).append(f"{at.sysfs}:{value}")
            return []
        command, output = at.command, text
        if at.first_line:
            head, _, output = text.partition("\n")
            command = head.removeprefix(_INVOKED).strip()
        return [(node, [Block(command, None, output.rstrip("\n"))])] if output.strip() else []


def _no_text(content: str) -> str:
    if content.startswith("PK\3\4"):
        return "a zip archive: unpack it and give the folder, or pack it with tar"
    return "no text: it holds zero bytes" if content.strip() else "empty"


def _sysfs_block(lines: list[str]) -> Block:
    return Block(_SYSFS, 0, "\n".join(sorted(lines)))


def _node(relative: PurePosixPath) -> str:
    """A file in a folder belongs to the node that the folder is named after; one at the top, to its own name."""
    parts = [part for part in relative.parts if part not in (".", "..", "/")]
    return parts[0] if len(parts) > 1 else relative.stem
