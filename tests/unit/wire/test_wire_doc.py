"""docs/wire.md says what the code does: its tables are read and compared."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import fields
from pathlib import Path

import pytest
from tests.kv_examples import PREFILL

from pdwire import (
    AbortCode,
    Challenge,
    CompatRecord,
    Conversion,
    Credentials,
    DType,
    FirstToken,
    Hello,
    Kind,
    Limits,
    Offer,
    Part,
    Role,
    Secret,
    Security,
    bodies,
    frames,
    header,
    limits,
    record,
    state,
)
from pdwire.auth import Handshake
from pdwire.frames import CONNECTION_KINDS, MAX_META, MAX_META_TEXT, MAX_REASON

DOC = (Path(__file__).parents[3] / "docs" / "wire.md").read_text(encoding="utf-8")
TYPES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "16 bytes": "16s", "4 x u16": "4H"}


def table(*columns: str) -> list[dict[str, str]]:
    """The rows of the table whose first columns are these."""
    lines = iter(DOC.splitlines())
    for line in lines:
        names = cells(line)
        if names[: len(columns)] == list(columns):
            next(lines)
            rows = []
            for row in lines:
                if not row.startswith("|"):
                    break
                rows.append(dict(zip(names, cells(row), strict=True)))
            return rows
    raise AssertionError(f"no table with columns {columns}")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.mark.parametrize(
    ("column", "start", "struct"), [("header field", 0, header.HEADER), ("descriptor field", 32, header.DESCRIPTOR)]
)
def test_the_byte_tables_are_the_structs(column: str, start: int, struct: object) -> None:
    rows = table("bytes", "type", column)
    assert "<" + "".join(TYPES[row["type"]] for row in rows) == struct.format  # type: ignore[attr-defined]
    at = start
    for row in rows:
        first, _, last = row["bytes"].partition("-")
        assert int(first) == at
        at = int(last or first) + 1
    assert at == start + 32


def test_magic_and_version() -> None:
    values = {row["header field"]: row["value"] for row in table("bytes", "type", "header field")}
    assert int(values["magic"], 16) == header.MAGIC
    assert int(values["version"]) == record.PROTOCOL_VERSION
    assert values["checksum"].startswith("xxh3-64 (seed 0) over bytes 0-23, then 32-63, then the body")
    assert header.FLAG_BIG_ENDIAN == 1 << 0 and "Bit 0" in values["flags"]


@pytest.mark.parametrize(("column", "enum"), [("part", Part), ("abort", AbortCode), ("security", Security)])
def test_the_code_tables_are_the_enums(column: str, enum: type[Part] | type[AbortCode] | type[Security]) -> None:
    assert {row[column]: int(row["code"]) for row in table(column, "code")} == {e.name: e.value for e in enum}


def test_the_dtypes() -> None:
    rows = table("dtype", "code")
    assert {(row["dtype"], int(row["code"]), int(row["itemsize"])) for row in rows} == {
        (dtype.label, dtype.value, dtype.itemsize) for dtype in DType
    }


def test_the_kinds_and_who_says_them() -> None:
    rows = table("kind", "code")
    assert {row["kind"]: int(row["code"]) for row in rows} == {kind.name: kind.value for kind in Kind}
    speakers: dict[str, set[Role]] = {kind.name: set() for kind in Kind}
    for events in state.CONNECTION.values():
        for role, kind in events:
            speakers[kind.name].add(role)
    for row in rows:
        says = set(Role) if row["said by"] == "both" else {Role(row["said by"])}
        assert speakers[row["kind"]] == says
        assert (row["speaks for"] == "connection") == (Kind[row["kind"]] in CONNECTION_KINDS)


def test_the_keys_of_the_json_bodies() -> None:
    bodies = {row["kind"]: re.findall(r"`(\w+)`", row["body"]) for row in table("kind", "code")}
    assert bodies["FIRST_TOKEN"] == [field.name for field in fields(FirstToken) if field.name != "request"]
    hello = DOC.split("## HELLO")[1].split("##")[0]
    keys = {name: re.findall(r"`(\w+)`", text) for name, text in re.findall(r"`(record|offer)`: ([^.]*)\.", hello)}
    assert set(keys["record"]) == {field.name for field in fields(CompatRecord)}
    assert keys["offer"] == [field.name for field in fields(Offer)]
    assert bodies["HELLO"] == [field.name for field in fields(Hello)]
    names = re.findall(r"[a-z-]+", re.search(r"each once, of\s([^;]*);", hello)[1].replace(" and ", " "))  # type: ignore[index]
    assert names == [conversion.value for conversion in Conversion]


def test_the_bounds() -> None:
    bounds = {row["what"]: [int(n) for n in re.findall(r"\d+", row["bound"])] for row in table("what", "bound")}
    assert bounds["a control frame (all but LAYER), head included"] == [limits.MAX_CONTROL_BYTES]
    assert bounds["any frame before a proof, head included"] == [limits.MAX_HANDSHAKE_BYTES]
    assert bounds["tokens in a frame"] == [limits.MAX_FRAME_TOKENS]
    assert bounds["an abort's reason"] == [MAX_REASON]
    assert bounds["`meta`"] == [MAX_META, MAX_META_TEXT]
    assert header.HEAD_BYTES == 64


def test_the_state_tables_and_their_deadlines() -> None:
    rows = {
        (row["state"], row["deadline"]): row["what may be said, and what follows"]
        for start in ("unproven", "idle")
        for row in table_starting(start)
    }
    want = {}
    for states, deadlines in (
        (state.CONNECTION, state.CONNECTION_DEADLINE),
        (state.REQUEST, state.REQUEST_DEADLINE),
    ):
        for each, events in states.items():
            said = "; ".join(f"{role} {kind.name}: {after.value}" for (role, kind), after in events.items())
            want[each.value, deadlines.get(each, "")] = said  # type: ignore[call-overload]
    assert rows == want


def table_starting(first: str) -> list[dict[str, str]]:
    """Two tables have the same columns: the one whose first row is this state."""
    lines = DOC.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith(f"| {first} |"))
    names = cells(lines[at - 2])
    rows = []
    for line in lines[at:]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


def test_the_deadlines_and_their_defaults() -> None:
    rows = {row["deadline"]: float(row["default"].removesuffix(" s")) for row in table("deadline", "default")}
    defaults = Limits()
    assert rows == {field.name: getattr(defaults, field.name) for field in fields(Limits) if field.name.endswith("_s")}


def test_the_bodies_of_the_handshake_are_the_structs() -> None:
    bodies_said = {row["kind"]: row["body"] for row in table("kind", "code")}
    sizes = {name: [int(n) for n in re.findall(r"(\d+) bytes", bodies_said[name])] for name in ("CHALLENGE", "PROOF")}
    assert sizes["PROOF"] == [frames.SECRET_ID_BYTES, frames.NONCE_BYTES, frames.DIGEST_BYTES, frames.DIGEST_BYTES]
    assert sizes["CHALLENGE"] == [frames.NONCE_BYTES, frames.SECRET_ID_BYTES]
    assert sum(sizes["PROOF"]) == bodies._PROOF.size and 2 + sizes["CHALLENGE"][0] == bodies._CHALLENGE.size


def test_the_words_that_the_proofs_are_made_of_are_the_codes() -> None:
    """From the page alone: what an implementation in another language would compute."""
    secret, nonce, peer_nonce = bytes(range(32)), b"p" * 32, b"d" * 32
    credentials = Credentials(Security.AUTHENTICATED, lambda: [Secret(secret)], nonce)
    hello = Hello(role=Role.PREFILL, record=PREFILL, offer=Offer())
    handshake = Handshake(Role.PREFILL, credentials, hello)
    secret_id = hashlib.sha256(b"pdwire secret id\0" + secret).digest()[:8]
    challenge = Challenge(security=Security.AUTHENTICATED, nonce=peer_nonce, secret_ids=(secret_id,))
    handshake.heard(challenge)
    said = bytes([1, 1]) + peer_nonce + secret_id
    transcript = hashlib.sha256(b"pdwire 1 handshake\0" + said).digest()
    digest = hmac.digest(secret, b"pdwire 1 hello\0" + bodies.encode(hello), "sha256")
    words = b"pdwire 1 proof of prefill\0" + transcript + secret_id + nonce + digest
    assert handshake.proof.mac == hmac.digest(secret, words, "sha256")
    assert handshake.proof.secret_id == secret_id and handshake.proof.hello == digest
    for word in (
        "pdwire secret id",
        "pdwire 1 handshake",
        "pdwire 1 proof of ",
        "pdwire 1 hello",
        "pdwire derived",
        "pdwire 1 traffic of ",
    ):
        assert f"`{word}`" in DOC
