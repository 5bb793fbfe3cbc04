"""A body that does not come costs the router neither a place for long nor the way for others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message
from tests.engine.tiny import make_tokenizer

from pdserve import http_json
from pdserve.config import Listen, ModelConfig, Peer, RouterConfig
from pdserve.control_auth import ControlAuth
from pdserve.metrics import RouterMetrics
from pdserve.openai_api.endpoints import OpenAiApi
from pdserve.router.gate import Gate
from pdserve.router.generation import Fleet
from pdserve.router.peers import Peers
from pdserve.router.pool import Pool
from pdserve.text.tokenizer import Tokenizer

MAX_REQUESTS = 3


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAiApi]:
    directory: Path = tmp_path_factory.mktemp("model")
    make_tokenizer(directory)
    prefill, decode = Peer(name="p0", url="http://127.0.0.1:1"), Peer(name="d0", url="http://127.0.0.1:2")
    metrics = RouterMetrics()
    yield OpenAiApi(
        config=RouterConfig(
            name="r0",
            listen=Listen(port=1),
            model=ModelConfig(path=directory, name="tiny"),
            prefill=[prefill],
            decode=[decode],
            max_requests=MAX_REQUESTS,
        ),
        tokenizer=Tokenizer(directory),
        fleet=Fleet(Pool([prefill]), Pool([decode]), Peers(ControlAuth(None)), metrics, 1, frozenset({0})),
        gate=Gate(is_open=True),
        metrics=metrics,
        vocabulary=100,
        context=100,
    )


async def post_one_byte(api: OpenAiApi) -> Response:
    pieces = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Message:
        if not pieces:
            await asyncio.sleep(60)
        return pieces.pop()

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [], "query_string": b""}
    return await api.completions(Request(scope, receive))


def error_code(response: Response) -> str:
    return str(json.loads(bytes(response.body))["error"]["code"])


def test_bodies_that_do_not_come_are_bounded_in_time_and_in_number(
    api: OpenAiApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_json, "_BODY_SECONDS", 0.5)

    async def scenario() -> None:
        reading = [asyncio.create_task(post_one_byte(api)) for _ in range(MAX_REQUESTS)]
        await asyncio.sleep(0)
        refused = await asyncio.wait_for(post_one_byte(api), 0.3)
        assert (refused.status_code, error_code(refused)) == (503, "busy")
        for response in await asyncio.wait_for(asyncio.gather(*reading), 5):
            assert (response.status_code, error_code(response)) == (408, "body_too_slow")
        assert api.in_reading == 0

    asyncio.run(scenario())
