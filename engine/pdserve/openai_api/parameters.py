"""What a client may ask for. Every parameter is either honoured or refused by name; none is dropped in silence."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import from_json

from pdserve.openai_api.errors import ApiError, invalid, unsupported

# OpenAI's parameters that are not built, with the values that ask for nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False, 0),
    "modalities": (["text"],),
    "n": (1,),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "presence_penalty": (0,),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}
# Labels of the caller's own, which no answer depends on.
_LABELS = ("user", "metadata", "safety_identifier", "prompt_cache_key", "service_tier")

TIMEOUT_HEADER = "x-pdctl-timeout-s"
"""The same as the parameter `timeout_s`, for clients that cannot send parameters of their own."""

TokenId = Annotated[int, Field(ge=0)]
MAX_STOPS = 16


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(_Parameters):
    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class PdctlOptions(_Parameters):
    figures: bool = False


class Parameters(_Parameters):
    """What completions and chat share. Defaults are OpenAI's."""

    model: str
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    temperature: float = Field(default=1.0, ge=0.0, le=2.0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, allow_inf_nan=False)
    top_k: int = Field(default=0, ge=0)
    seed: int | None = Field(default=None, ge=-(1 << 63), lt=1 << 63)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: list[str] = Field(default=[], max_length=MAX_STOPS)
    ignore_eos: bool = False
    return_token_ids: bool = False
    timeout_s: float | None = Field(default=None, gt=0.0, le=86_400.0, allow_inf_nan=False)
    pdctl: PdctlOptions = PdctlOptions()

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class CompletionParameters(Parameters):
    """prompt: text or token ids; a list with one of either is taken too."""

    prompt: str | list[TokenId]
    max_tokens: int | None = Field(default=16, ge=1)
    echo: bool = False

    @field_validator("prompt", mode="before")
    @classmethod
    def _only_one(cls, value: Any) -> Any:
        if isinstance(value, list) and value and all(isinstance(item, str | list) for item in value):
            if len(value) > 1:
                raise ValueError("one prompt a request; send several requests")
            return value[0]
        return value


class TextPart(_Parameters):
    type: Literal["text"]
    text: str


class Message(_Parameters):
    """content: text, or a list of text parts, which are joined. name: null only; chat templates have no place for it."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: None = None

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatParameters(Parameters):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)

    @field_validator("max_completion_tokens")
    @classmethod
    def _one_limit(cls, value: int | None, info: ValidationInfo) -> int | None:
        """`max_tokens` is the older name of the same limit."""
        if value is not None and info.data.get("max_tokens") not in (None, value):
            raise ValueError("differs from `max_tokens`, which limits the same; send one of them")
        return value

    @property
    def answer_tokens(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


Kind = TypeVar("Kind", bound=Parameters)


def parse(body: bytes, kind: type[Kind]) -> Kind:
    """Raises ApiError (400) that names the parameter."""
    try:
        value = from_json(body)  # unlike json.loads, refuses half a surrogate pair
    except ValueError as error:
        raise invalid(None, f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise invalid(None, "the body is not a JSON object")
    given = {name: item for name, item in value.items() if item is not None and name not in _LABELS}
    for name in [name for name in given if name in _NEUTRAL and name not in kind.model_fields]:
        if given.pop(name) not in _NEUTRAL[name]:
            raise unsupported(name, "is not supported")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _named(error, given) from None


def _named(error: ValidationError, given: dict[str, Any]) -> ApiError:
    """About the form that fits furthest, where a parameter may have several: its errors lie deepest."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    rivals = [one for one in errors if one["loc"][:1] == errors[0]["loc"][:1]]
    first = max(rivals, key=lambda one: len(_written(one["loc"], given)))
    path = _written(first["loc"], given)
    if first["type"] == "missing":
        missing = ".".join([*path, str(first["loc"][-1])])
        return ApiError(400, f"`{missing}`: is required", code="missing_required_parameter", param=missing)
    param = ".".join(path) or None
    if first["type"] == "extra_forbidden":
        return unsupported(param or "body", "is not a parameter of this call")
    if first["type"] == "none_required":
        return unsupported(param or "body", "is not supported")
    said = dict.fromkeys(str(one["msg"]) for one in rivals if _written(one["loc"], given) == path)
    return invalid(param, "; or: ".join(said))


def _written(loc: tuple[int | str, ...], body: dict[str, Any]) -> list[str]:
    """The path in the client's own body: pydantic's also names the forms that it tried."""
    path = []
    place: Any = body
    for part in loc:
        match place, part:
            case dict(), str() if part in place:
                place = place[part]
            case list(), int() if part < len(place):
                place = place[part]
            case _:
                continue
        path.append(str(part))
    return path
