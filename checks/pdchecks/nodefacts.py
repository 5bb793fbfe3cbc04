"""The facts of one node: every reader's answer to every block it knows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from pdchecks.evidence import Block, Evidence, Quote, words
from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown

F = TypeVar("F", bound=Fact)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unread:
    """A block from which no fact came: the tool is missing, refused, hung, or printed what no reader understands.

    known: some reader takes this command or this shape of output.
    """

    quote: Quote
    reason: str
    known: bool = True


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """name: the node. collected: the blocks come from a whole run of our collector, so what is absent was looked for.

    commands: those that a reader could read.
    """

    name: str
    facts: tuple[Fact, ...]
    unread: tuple[Unread, ...] = ()
    collected: bool = False
    commands: tuple[str, ...] = ()
    _by_kind: dict[type[Fact], tuple[Fact, ...]] = field(default_factory=dict, compare=False, repr=False)
    _derived: dict[object, object] = field(default_factory=dict, compare=False, repr=False)

    def all(self, kind: type[F]) -> tuple[F, ...]:
        """Every fact of that kind, in the order of the evidence."""
        if kind not in self._by_kind:
            self._by_kind[kind] = tuple(fact for fact in self.facts if isinstance(fact, kind))
        return self._by_kind[kind]  # type: ignore[return-value]

    def derived(self, rule: Callable[["NodeFacts"], T]) -> T:
        """What a pure rule makes of the facts, worked out once however many checks ask."""
        if rule not in self._derived:
            self._derived[rule] = rule(self)
        return self._derived[rule]  # type: ignore[return-value]

    def bare(self) -> "NodeFacts":
        """The same without what was worked out: it travels lighter."""
        return NodeFacts(self.name, self.facts, self.unread, self.collected, self.commands)

    def saw(self, tool: str) -> bool:
        """Whether an output of the named tool was read."""
        return any(tool in words(command) for command in self.commands)

    def why_unread(self, tool: str) -> str:
        """Why the named tool's blocks gave nothing; empty where they did, or where there were none."""
        return "; ".join(dict.fromkeys(u.reason for u in self.unread if tool in words(u.quote.command)))


# Exit statuses by which the collector says that a command gave no answer: not installed, needs root, out of time.
_NO_ANSWER = {127, 126, 124}
_MARK = "pdctl: "
_NO_READER = Unknown("no reader knows this command or the shape of its output")
_TORN = Unknown("the evidence ends within this output")
_MARKS = ("begin", "end")
_NOTHING = Unknown("nothing in this output is of a form that its reader knows")
_UNKNOWN_FORM = (_NO_READER, _NOTHING)


def gather(evidence: Evidence) -> NodeFacts:
    """Facts of one node's evidence. Never raises: a reader that breaks leaves an `Unread` with its error."""
    facts: list[Fact] = []
    unread: list[Unread] = []
    commands: list[str] = []
    begun, ended = (any(b.command.startswith(f"pdctl-collect {mark}") for b in evidence.blocks) for mark in _MARKS)
    for block in evidence.blocks:
        if block.command.startswith("pdctl-collect"):
            continue
        # By hand a last block needs no end; the collector prints none without one.
        outcomes = [_TORN] if block.torn and begun and not ended else list(_read(block))
        if not any(isinstance(outcome, Unknown) and outcome is not _NOTHING for outcome in outcomes):
            commands.append(block.command)
        for outcome in outcomes:
            if isinstance(outcome, Unknown):
                unread.append(Unread(block.quote(block.output), outcome.reason, outcome not in _UNKNOWN_FORM))
            else:
                facts.append(outcome)
    return NodeFacts(evidence.node, tuple(facts), tuple(unread), begun and ended, tuple(commands))


def _read(block: Block) -> Iterator[Fact | Unknown]:
    from pdchecks.parse import READERS

    if block.rc in _NO_ANSWER and block.output.startswith(_MARK):
        yield Unknown(block.output.removeprefix(_MARK).split("\n")[0])
        return
    readers = [reader for reader in READERS if reader.claims(block)]
    silent = bool(block.output.strip()) and not any(reader.events for reader in readers)
    for reader in readers:
        try:
            answer: Iterable[Fact] | Unknown = reader.parse(block)
        except Exception as error:
            answer = Unknown(f"the reader of {reader.tool} broke on this output: {type(error).__name__}: {error}")
        if isinstance(answer, Unknown):
            silent = False
            yield answer
        else:
            for fact in answer:
                silent = False
                yield fact
    if not readers or silent:
        yield _NOTHING if readers else _NO_READER
