"""The official client against the running router."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

pytest.importorskip("openai")

import openai
from tests.engine.cluster import MODEL_NAME, Cluster
from tests.engine.reference_tokens import MAX_TOKENS, ReferenceTokens

from pdserve.text.detokenizer import REPLACEMENT

pytestmark = pytest.mark.engine

QUESTION: Any = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Any:
    return openai.OpenAI(base_url=f"{cluster.router.url}/v1", api_key="none", max_retries=0, timeout=120)


def test_a_chat_answer_whole_and_streamed_is_the_same(client: Any) -> None:
    asked: dict[str, Any] = {"model": MODEL_NAME, "messages": QUESTION, "temperature": 0, "max_tokens": 32}
    whole = client.chat.completions.create(**asked)
    assert "Paris" in whole.choices[0].message.content
    assert whole.choices[0].finish_reason == "stop"
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert whole.usage.completion_tokens == len(text.split()) + 2  # one a word, the full stop, the end


def test_max_tokens_ends_with_length_and_one_token_is_the_least(client: Any) -> None:
    for tokens in (1, 5):
        answer = client.completions.create(
            model=MODEL_NAME,
            prompt="Once upon a time",
            max_tokens=tokens,
            temperature=0,
            extra_body={"ignore_eos": True},
        )
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == tokens
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=MODEL_NAME, prompt="x", max_tokens=0)
    assert refused.value.param == "max_tokens"


def test_a_stop_string_ends_the_answer_and_is_not_part_of_it(client: Any) -> None:
    asked: dict[str, Any] = {"model": MODEL_NAME, "messages": QUESTION, "temperature": 0, "max_tokens": 32}
    full = client.chat.completions.create(**asked).choices[0].message.content
    stop = full[9:14]  # begins and ends inside words, so across tokens
    for stream in (False, True):
        answer = client.chat.completions.create(**asked, stop=[stop, "never"], stream=stream)
        if stream:
            chunks = list(answer)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            reason = chunks[-1].choices[0].finish_reason
        else:
            text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
        assert (text, reason) == (full[: full.index(stop)], "stop")


def test_text_and_token_prompts_are_the_same_prompt(client: Any, reference_tokens: ReferenceTokens) -> None:
    kept = reference_tokens.named("The capital of France is")
    asked: dict[str, Any] = {"model": MODEL_NAME, "temperature": 0, "max_tokens": MAX_TOKENS, "echo": True}
    texts = [client.completions.create(prompt=prompt, **asked).choices[0].text for prompt in (kept.name, kept.prompt)]
    assert texts[0] == texts[1] and texts[0].startswith("The capital of France is")


def test_a_streamed_answer_never_holds_half_a_character(client: Any, reference_tokens: ReferenceTokens) -> None:
    chinese = next(one for one in reference_tokens.prompts if one.name.startswith("人工智能"))
    asked: dict[str, Any] = {"model": MODEL_NAME, "prompt": chinese.prompt, "temperature": 0, "max_tokens": MAX_TOKENS}
    whole = client.completions.create(**asked).choices[0].text
    pieces = [chunk.choices[0].text for chunk in client.completions.create(**asked, stream=True)]
    assert "".join(pieces) == whole
    assert any("\u4e00" <= letter <= "\u9fff" for letter in whole)
    assert not any(REPLACEMENT in piece for piece in pieces[:-2])


def test_errors_are_the_clients_own_kinds(client: Any, cluster: Cluster) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist here"):
        client.completions.create(model="other", prompt="x")
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=MODEL_NAME, messages=QUESTION, tools=[{"type": "function", "function": {"name": "f"}}]
        )
    assert refused.value.param == "tools"
    with pytest.raises(openai.BadRequestError, match="context is 8192 tokens") as refused:
        client.completions.create(model=MODEL_NAME, prompt="x", max_tokens=9000)
    assert refused.value.code == "context_length_exceeded"
    big = httpx.post(f"{cluster.router.url}/v1/completions", content=b"x" * (5 << 20), trust_env=False)
    assert big.status_code == 413 and big.json()["error"]["code"] == "body_too_large"
    with pytest.raises(openai.NotFoundError) as unknown:
        client.embeddings.create(model=MODEL_NAME, input="x")
    assert unknown.value.code == "not_found"


def test_the_model_list_names_the_model(client: Any) -> None:
    assert [model.id for model in client.models.list()] == [MODEL_NAME]


def test_figures_come_with_the_answer_that_asks_for_them(client: Any) -> None:
    asked: dict[str, Any] = {"model": MODEL_NAME, "messages": QUESTION, "max_tokens": 8, "temperature": 0}
    figures = {"pdctl": {"figures": True}}
    whole = client.chat.completions.create(**asked, extra_body=figures).pdctl
    streamed = list(client.chat.completions.create(**asked, stream=True, extra_body=figures))[-1].pdctl
    for report in (whole, streamed):
        assert report["path"] == "split" and report["layers"] == 30 and report["kv_bytes"] > 0
        assert report["kv_gb_per_s"] > 0 and report["ttft_seconds"] > 0 and report["itl_max_seconds"] > 0


def test_a_closed_router_lets_the_canary_in_and_no_client(client: Any, cluster: Cluster) -> None:
    base = cluster.router.url
    closed = httpx.post(f"{base}/internal/close", json={"reason": "maintenance"}, trust_env=False).json()
    try:
        assert closed == {"status": "closed", "reason": "maintenance"}
        assert httpx.get(f"{base}/health", trust_env=False).status_code == 503
        with pytest.raises(openai.InternalServerError, match="maintenance"):
            client.completions.create(model=MODEL_NAME, prompt="x")
        canary = {"token_ids": [1, 2, 3], "max_tokens": 4, "prefill": "p0", "decode": "d0"}
        passed = httpx.post(f"{base}/internal/canary", json=canary, timeout=60, trust_env=False).json()
        assert len(passed["token_ids"]) == 4 and passed["pdctl"]["path"] == "split"
        unknown = httpx.post(f"{base}/internal/canary", json=canary | {"prefill": "p9"}, trust_env=False)
        assert unknown.status_code == 400 and "p9" in unknown.text
    finally:
        httpx.post(f"{base}/internal/open", trust_env=False)
    state = httpx.get(f"{base}/internal/state", trust_env=False).json()
    assert state["status"] == "open" and state["prefill"][0]["in_flight"] == 0
