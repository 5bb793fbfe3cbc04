"""Pins as an environment file (systemd's EnvironmentFile=, `docker run --env-file`, a shell's `set -a; . FILE`) and as JSON."""

import textwrap
from collections.abc import Sequence
from typing import Any

from pdchecks.pins import Pins

_WIDTH = 110


def environment_file(made: Pins) -> str:
    """Every variable below its reason; what is better left unset is a comment."""
    lines = [f"# Made by `pdctl env` for {made.node}, from its own evidence. GID indices of another node differ."]
    lines += [f"# Not used: {port}: {why}" for port, why in made.left_out]
    for pin in made.pins:
        lines += ["", *(f"# {line}" for line in textwrap.wrap(pin.reason, _WIDTH, break_on_hyphens=False))]
        lines.append(f"# {pin.name} is left unset" if pin.value is None else f"{pin.name}={pin.value}")
    return "\n".join(lines)


def document(made: Sequence[Pins]) -> dict[str, Any]:
    """Schema `pdctl.env/1`: within version 1 keys may be added; none is removed or changes its meaning."""
    return {
        "schema": "pdctl.env/1",
        "nodes": [
            {
                "node": one.node,
                "variables": [{"name": pin.name, "value": pin.value, "reason": pin.reason} for pin in one.pins],
                "left_out": [{"port": port, "reason": why} for port, why in one.left_out],
            }
            for one in made
        ],
    }
