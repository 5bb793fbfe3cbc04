"""What the readers make of one output: the facts, and the reasons for those that there are not."""

from typing import TypeVar

from pdchecks.evidence import Block, Evidence
from pdchecks.facts.base import Fact
from pdchecks.nodefacts import NodeFacts, gather

F = TypeVar("F", bound=Fact)


def node(command: str, output: str, rc: int | None = 0) -> NodeFacts:
    return gather(Evidence("node", (Block(command, rc, output),)))


def read(kind: type[F], command: str, output: str, rc: int | None = 0) -> tuple[F, ...]:
    return node(command, output, rc).all(kind)
