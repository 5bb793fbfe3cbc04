"""The base of every fact."""

from dataclasses import dataclass

from pdchecks.evidence import Quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """quote: the words from which the fact was read."""

    quote: Quote
