"""Facts as lines of text, so that a person can read what a reader is expected to see."""

from collections.abc import Mapping
from dataclasses import fields
from ipaddress import IPv6Address

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.parse import READERS
from pdchecks.unknown import Unknown


def facts_text(blocks: list[Block]) -> str:
    """One line a fact: its kind and its fields. An unknown field is `?`; an unread block is a line with its reason."""
    lines: list[str] = []
    for block in blocks:
        for reader in READERS:
            if not reader.claims(block):
                continue
            answer = reader.parse(block)
            if isinstance(answer, Unknown):
                lines.append(f"Unknown by {reader.tool}: {answer.reason}")
            else:
                lines += [_line(fact) for fact in answer]
    return "".join(f"{line}\n" for line in lines)


def _line(fact: Fact) -> str:
    shown = (f"{field.name}={_value(getattr(fact, field.name))}" for field in fields(fact) if field.name != "quote")
    return " ".join([type(fact).__name__, *shown])


def _value(value: object) -> str:
    if isinstance(value, Unknown):
        return "?"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, IPv6Address) and value.ipv4_mapped:
        # Python 3.13 writes the last half as IPv4, older ones in hexadecimal.
        return f"::ffff:{int(value) >> 16 & 0xFFFF:x}:{int(value) & 0xFFFF:x}"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(str, value))) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_value, value)) + ")"
    return repr(value) if isinstance(value, str) else str(value)
