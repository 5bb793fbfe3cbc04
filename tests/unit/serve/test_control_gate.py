"""Control calls are for who holds the deployment's secret or, where there is none, for this host."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette")

import httpx
from pydantic import ValidationError
from starlette.requests import Request

from pdserve.config import DecodeConfig, PrefillConfig
from pdserve.control_auth import ControlAuth
from pdserve.http_json import ControlGate
from pdserve.secret_file import CONTROL_HEADER, SecretFile
from pdwire import Secret

SECRET = Secret(bytes(range(32)))


@pytest.fixture
def secret(tmp_path: Path) -> SecretFile:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(SECRET.value.hex(), encoding="ascii")
    return SecretFile(file)


def request(client: str | None, token: str | None = None) -> Request:
    headers = [(CONTROL_HEADER.encode(), token.encode())] if token is not None else []
    return Request({"type": "http", "headers": headers, "client": (client, 1) if client else None})


def test_without_a_secret_only_this_host_may_call() -> None:
    gate = ControlGate(None)
    assert gate.allows(request("127.0.0.1")) and gate.allows(request("::1"))
    assert not any(gate.allows(request(client)) for client in ("10.0.0.5", "testclient", None))


def test_with_a_secret_only_its_holder_may_call_and_another_user_of_this_host_may_not(secret: SecretFile) -> None:
    gate = ControlGate(secret)
    assert gate.allows(request("10.0.0.5", secret.control_token))
    wrong = (None, "", "wrong", "é", SECRET.value.hex(), secret.control_token + "0")
    assert not any(gate.allows(request("127.0.0.1", token)) for token in wrong)


def test_a_caller_shows_what_is_derived_and_never_the_secret(secret: SecretFile) -> None:
    sent = next(ControlAuth(secret).auth_flow(httpx.Request("GET", "http://127.0.0.1:1/v1/info")))
    assert sent.headers[CONTROL_HEADER] == secret.control_token
    assert SECRET.value.hex() not in str(sent.headers.raw)
    bare = next(ControlAuth(None).auth_flow(httpx.Request("GET", "http://127.0.0.1:1/v1/info")))
    assert CONTROL_HEADER not in bare.headers


MODEL = {"path": "/m", "name": "m"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_an_engine_on_the_loopback_needs_no_secret(host: str) -> None:
    listen = {"host": host, "port": 8101}
    PrefillConfig.model_validate({"name": "p0", "listen": listen, "model": MODEL})
    DecodeConfig.model_validate({"name": "d0", "listen": listen, "kv_listen": listen, "model": MODEL})


def test_an_engine_that_others_reach_does_not_start_without_a_secret(tmp_path: Path) -> None:
    outside, inside = {"host": "192.0.2.7", "port": 8101}, {"port": 8102}
    with pytest.raises(ValidationError, match=r"192\.0\.2\.7.*needs a secret_file"):
        PrefillConfig.model_validate({"name": "p0", "listen": outside, "model": MODEL})
    decode = {"name": "d0", "listen": inside, "kv_listen": outside, "model": MODEL}
    with pytest.raises(ValidationError, match="needs a secret_file"):
        DecodeConfig.model_validate(decode)
    DecodeConfig.model_validate(decode | {"secret_file": tmp_path / "secret"})


def test_encrypted_without_a_secret_is_refused() -> None:
    with pytest.raises(ValidationError, match="security `encrypted` needs a secret_file"):
        PrefillConfig.model_validate({"name": "p", "listen": {"port": 1}, "model": MODEL, "security": "encrypted"})
