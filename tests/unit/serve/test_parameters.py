"""Every parameter is honoured or refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pdserve.openai_api.errors import ApiError
from pdserve.openai_api.parameters import ChatParameters, CompletionParameters, parse

COMPLETION = {"model": "m", "prompt": "hello"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def refused(body: dict[str, Any] | bytes, kind: type[Any] = CompletionParameters) -> ApiError:
    with pytest.raises(ApiError) as error:
        parse(body if isinstance(body, bytes) else json.dumps(body).encode(), kind)
    assert error.value.status == 400
    return error.value


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("n", 2),
        ("best_of", 3),
        ("logprobs", 5),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -1),
        ("logit_bias", {"5": 10}),
        ("suffix", "x"),
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("guided_json", {}),
    ],
)
def test_what_is_not_supported_is_refused_by_name(param: str, value: Any) -> None:
    error = refused({**COMPLETION, param: value})
    assert (error.param, error.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.5),
        ("temperature", "warm"),
        ("top_p", 0),
        ("top_k", -1),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("seed", 1 << 63),
        ("stop", ["x"] * 17),
        ("timeout_s", 0),
        ("stream", "yes"),
        ("echo", 1),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(param: str, value: Any) -> None:
    error = refused({**COMPLETION, param: value})
    assert error.param is not None and error.param.startswith(param)
    assert error.code == "invalid_value"


@pytest.mark.parametrize("prompt", [[-1], ["a", "b"], [[1], [2]], 5, [1, "a"], {"a": 1}])
def test_a_prompt_of_no_known_form_is_refused(prompt: Any) -> None:
    error = refused({"model": "m", "prompt": prompt})
    assert error.param is not None and error.param.startswith("prompt")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "tool", "content": "x"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
        "hi",
    ],
)
def test_messages_of_no_known_form_are_refused(messages: Any) -> None:
    error = refused({"model": "m", "messages": messages}, ChatParameters)
    assert error.param is not None and error.param.startswith("messages")


def test_a_missing_parameter_is_named() -> None:
    assert refused({"prompt": "x"}).param == "model"


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'{"model": "m", "prompt": "\\ud800"}', b"\xff"])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    refused(body)


def test_values_that_ask_for_nothing_are_taken() -> None:
    neutral = {"n": 1, "logprobs": None, "presence_penalty": 0.0, "logit_bias": {}, "user": "me", "stop": None}
    parsed = parse(json.dumps({**COMPLETION, **neutral}).encode(), CompletionParameters)
    assert (parsed.temperature, parsed.top_p, parsed.max_tokens, parsed.stop) == (1.0, 1.0, 16, [])


@pytest.mark.parametrize(("given", "taken"), [("x", "x"), (["x"], "x"), ([[1, 2]], [1, 2]), ([1, 2], [1, 2])])
def test_every_form_of_one_prompt_is_taken(given: Any, taken: Any) -> None:
    assert parse(json.dumps({"model": "m", "prompt": given}).encode(), CompletionParameters).prompt == taken


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    body = {"model": "m", "messages": [{"role": "user", "content": parts, "name": None}]}
    assert parse(json.dumps(body).encode(), ChatParameters).messages[0].text == "ab"


@pytest.mark.parametrize("limits", [{"max_tokens": 5}, {"max_completion_tokens": 5}])
def test_both_names_of_the_limit_are_taken_also_together_when_they_agree(limits: dict[str, int]) -> None:
    for body in (limits, {"max_tokens": 5, "max_completion_tokens": 5}):
        assert parse(json.dumps({**CHAT, **body}).encode(), ChatParameters).answer_tokens == 5


def test_two_limits_that_differ_are_refused_by_name() -> None:
    error = refused({**CHAT, "max_tokens": 9, "max_completion_tokens": 5}, ChatParameters)
    assert error.param == "max_completion_tokens" and "`max_tokens`" in str(error)


def test_a_name_in_a_message_is_refused_by_name() -> None:
    error = refused({"model": "m", "messages": [{"role": "user", "content": "x", "name": "ann"}]}, ChatParameters)
    assert (error.param, error.code) == ("messages.0.name", "unsupported_parameter")


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ([-1], "prompt.0"),
        ([1, -2], "prompt.1"),
        ([True], "prompt.0"),
        ([1, "a"], "prompt.1"),
        (["a", 1], "prompt.0"),
        (5, "prompt"),
        ({"a": 1}, "prompt"),
        ([[1], [2]], "prompt"),
        ([[1, -2]], "prompt"),
    ],
)
def test_a_bad_prompt_is_named_as_the_client_wrote_it(prompt: Any, param: str) -> None:
    assert refused({"model": "m", "prompt": prompt}).param == param


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user", "content": None}, "messages.0.content"),
        ({"role": "user"}, "messages.0.content"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages.0.content.0.text"),
        ({"role": "user", "content": [{"type": "text", "text": 1}]}, "messages.0.content.0.text"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages.0.content.0.type"),
    ],
)
def test_a_bad_message_is_named_as_the_client_wrote_it(message: Any, param: str) -> None:
    error = refused({"model": "m", "messages": [message]}, ChatParameters)
    assert error.param == param and f"`{param}`" in str(error)
