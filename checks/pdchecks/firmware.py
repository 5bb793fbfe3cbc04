"""Cards and their firmware: which family, whose image, older or newer than a floor."""

import re
from dataclasses import dataclass

from pdchecks.policy import Family, Firmware
from pdchecks.unknown import Unknown

# Families that share this scheme: family prefix, release, build (NVIDIA firmware release notes).
_VERSION = re.compile(r"(?P<prefix>\d{2})\.(?P<release>\d{1,3})\.(?P<build>\d{3,5})")


@dataclass(frozen=True, slots=True)
class Card:
    """family: its name in the policy; floors: what the policy says of it."""

    family: str
    floors: Family


def fields(version: str) -> tuple[int, ...]:
    """A version as integers, so that 9 is below 10."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version))


def is_mellanox(version: str) -> bool:
    return _VERSION.fullmatch(version) is not None


def card_of(version: str, part: int | Unknown, firmware: Firmware) -> Card | None:
    """The family by PCI part, else by the version's prefix; None for other makers' cards."""
    by_part = next((name for name, family in firmware.families.items() if part in family.parts), None)
    match = _VERSION.fullmatch(version)
    prefix = int(match["prefix"]) if match else None
    name = by_part or next((name for name, family in firmware.families.items() if family.prefix == prefix), None)
    return Card(name, firmware.families[name]) if name and match else None


def oem(psid: str | Unknown, firmware: Firmware) -> str | None:
    """The PSID where another maker than the card's own built the image."""
    if isinstance(psid, Unknown) or psid.startswith(tuple(firmware.vendor_psids)):
        return None
    return psid
