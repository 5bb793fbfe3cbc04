"""Firmware images and non-volatile settings of a card."""

from dataclasses import dataclass

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareImages(Fact):
    """running and stored (on flash, used from the next reset) as devlink or mstflint name them."""

    device: str
    psid: str | Unknown
    running: str | Unknown
    stored: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class NvParameter(Fact):
    """One mlxconfig parameter. now is Unknown where the tool printed only the next boot's value."""

    device: str
    name: str
    now: str | Unknown
    next_boot: str
