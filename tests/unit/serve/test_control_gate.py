"""Control calls are for the holder of the token, or for this host."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette")

from starlette.requests import Request

from pdserve.http_json import CONTROL_HEADER, ControlGate


def request(client: str | None, token: str | None = None) -> Request:
    headers = [(CONTROL_HEADER.encode(), token.encode())] if token is not None else []
    return Request({"type": "http", "headers": headers, "client": (client, 1) if client else None})


def test_without_a_token_only_this_host_may_call() -> None:
    gate = ControlGate(None)
    assert gate.allows(request("127.0.0.1")) and gate.allows(request("::1"))
    assert not any(gate.allows(request(client)) for client in ("10.0.0.5", "testclient", None))


def test_with_a_token_only_its_holder_may_call(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n", encoding="ascii")
    file.chmod(0o600)
    gate = ControlGate(file)
    assert gate.allows(request("10.0.0.5", "secret"))
    assert not gate.allows(request("127.0.0.1")) and not gate.allows(request("127.0.0.1", "wrong"))
    assert gate.headers == {CONTROL_HEADER: "secret"}


@pytest.mark.parametrize(("mode", "text"), [(0o644, "secret"), (0o600, " \n")])
def test_a_token_that_others_can_read_or_that_is_empty_is_refused(mode: int, text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="ascii")
    file.chmod(mode)
    with pytest.raises(ValueError, match="token"):
        ControlGate(file)
