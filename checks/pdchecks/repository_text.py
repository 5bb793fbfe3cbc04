"""Whether a codec failure comes from a repository's configuration or from a translated message."""

import re

from pdchecks.facts.host import CodecFailure, NonAsciiByte
from pdchecks.nodefacts import NodeFacts

# Names of the values that yum and dnf take from .repo files.
_FROM_REPO = re.compile(
    r"keyurl|gpgkey|baseurl|mirrorlist|metalink|repo(?:id|\.|s\b|file)|\burl\b|ConfigParser|iniparse"
)


def from_repository(failure: CodecFailure, node: NodeFacts) -> bool:
    """True where the statement handles such a value, or where a configuration file was seen to hold such a byte."""
    if failure.writing:
        return False
    if _FROM_REPO.search(failure.statement):
        return True
    return any(fact.byte == failure.byte and not fact.comment for fact in node.all(NonAsciiByte))
