"""The router by itself: every error is JSON that a client can read, whoever is missing behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from starlette.testclient import TestClient
from tests.engine.tiny import make_model

from pdserve.config import RouterConfig
from pdserve.router.server import RouterServer

# Port 1 of loopback: nobody listens there.
NOBODY = "http://127.0.0.1:1"
ASKED = {"model": "tiny", "prompt": "hello", "timeout_s": 0.3}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> RouterServer:
    model = make_model(tmp_path_factory.mktemp("tiny"))
    return RouterServer(
        RouterConfig.model_validate(
            {
                "name": "r0",
                "listen": {"port": 1024},
                "model": {"path": model, "name": "tiny"},
                "prefill": [{"name": "p0", "url": NOBODY}],
                "decode": [{"name": "d0", "url": NOBODY}],
            }
        )
    )


@pytest.fixture
def client(server: RouterServer) -> Iterator[TestClient]:
    with TestClient(server.app, client=("127.0.0.1", 1), raise_server_exceptions=False) as client:
        client.post("/internal/open")
        yield client


def test_it_starts_closed_and_says_why(server: RouterServer) -> None:
    with TestClient(server.app, client=("127.0.0.1", 1)) as client:
        client.post("/internal/close", json={"reason": "warming up"})
        assert client.get("/health").json() == {"status": "closed", "reason": "warming up"}
        answer = client.post("/v1/completions", json=ASKED)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")


def test_nobody_behind_it_is_a_gateway_timeout_that_names_the_peer(client: TestClient) -> None:
    for stream in (False, True):
        answer = client.post("/v1/completions", json=ASKED | {"stream": stream})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["type"]) == (504, "deadline", "server_error")
        assert NOBODY in error["message"]
        assert "`timeout_s`" in error["message"] and "`x-pdctl-timeout-s`" in error["message"]
    assert client.get("/metrics").text.count('outcome="deadline"') >= 1


def test_a_canary_on_a_pair_that_is_not_there_fails_at_once(client: TestClient) -> None:
    answer = client.post("/internal/canary", json={"token_ids": [3], "timeout_s": 20})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unreachable")


def test_an_unknown_path_or_method_is_json(client: TestClient) -> None:
    for answer, status, code in (
        (client.post("/v1/embeddings", json={}), 404, "not_found"),
        (client.get("/v1/completions"), 405, "method_not_allowed"),
    ):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["type"]) == (status, code, "invalid_request_error")
    assert client.get("/v1/completions").headers["allow"] == "POST"


def test_one_model_is_told_by_its_name_and_another_is_not_there(client: TestClient) -> None:
    (listed,) = client.get("/v1/models").json()["data"]
    assert client.get("/v1/models/tiny").json() == listed
    answer = client.get("/v1/models/org/other")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_a_fault_of_ours_is_json_and_tells_nothing_of_our_insides(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("pdserve.openai_api.endpoints.parse", broken)
    answer = client.post("/v1/completions", json=ASKED)
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "internal error")
    assert "secret" not in answer.text


def test_strangers_do_not_reach_the_control_calls(server: RouterServer) -> None:
    with TestClient(server.app, client=("192.0.2.7", 1)) as client:
        for path in ("/internal/state", "/internal/open", "/internal/canary", "/internal/close"):
            answer = client.get(path) if path.endswith("state") else client.post(path, json={})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_too_much_context_is_refused_before_anyone_is_asked(client: TestClient) -> None:
    error = client.post("/v1/completions", json=ASKED | {"max_tokens": 1000}).json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt")
    error = client.post("/v1/completions", json=ASKED | {"prompt": [99999]}).json()["error"]
    assert "outside" in error["message"] and error["param"] == "prompt"
