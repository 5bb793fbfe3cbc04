"""Versions of engines, as far as a table that was read from some of them can use them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """release: (0, 33, 0). text: as given, for messages and for comparing builds; not part of the order."""

    release: tuple[int, int, int]
    text: str

    def __str__(self) -> str:
        return self.text

    def before(self, *release: int) -> bool:
        return self.release < release

    def since(self, *release: int) -> bool:
        return self.release >= release


def parse_version(text: str) -> Version | Unknown:
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", text.strip())
    if match is None:
        return Unknown(f"not a version: {text[:40]!r}")
    release = (int(match[1]), int(match[2]), int(match[3] or 0))
    if release[:2] == (0, 1) and "dev" in text:
        return Unknown(f"{text} is a build from source without its tags: it does not say which release it is")
    return Version(release, text.strip().removeprefix("v"))
