"""`pdctl kv ledger` for people."""

from __future__ import annotations

from typing import Any

from pdctl.render.ledger import table


def document(role: str, *held: dict[str, Any]) -> dict[str, Any]:
    return {
        "role": role,
        "name": role[0] + "0",
        "requests": len(held),
        "kv_bytes": sum(one["kv_bytes"] for one in held),
        "held": list(held),
    }


def test_a_side_that_holds_nothing_says_so() -> None:
    assert table([document("prefill"), document("decode")], 0.0) == (
        "prefill p0: holds nothing\ndecode d0: holds nothing"
    )


def test_each_request_has_a_line_with_its_lease() -> None:
    sending = {
        "request": "ab" * 16,
        "state": "sending",
        "kv_bytes": 19353600,
        "age_s": 1.25,
        "left_s": 28.5,
        "peer": "tcp://127.0.0.1:7101",
        "ends": "the request's deadline, or `complete_s` after FIRST_TOKEN",
    }
    running = sending | {"state": "generating", "left_s": None, "peer": None, "ends": "its last token"}
    text = table([document("prefill", sending), document("decode", running)], 1_700_000_000.0)
    assert "prefill p0: 1 request, 19,353,600 bytes of KV" in text
    lines = text.splitlines()
    assert lines[3].split()[:3] == ["side", "request", "state"]
    assert "(1.2 s)" in lines[4] and "(28.5 s)" in lines[4] and "to tcp://127.0.0.1:7101" in lines[4]
    assert "generating" in lines[5] and "  -  " in lines[5] and lines[5].endswith("its last token")
