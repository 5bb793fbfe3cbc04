"""The router's calls to prefill and decode.

Every failure becomes a PeerError that says whether the peer was reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from pdserve.calls import AbortCall, GenerateCall, PrefillAnswer, PrefillCall, ReserveCall, Ticket

_CONNECT_SECONDS = 2.0
_ABORT_SECONDS = 1.0
_LONGEST_LINE = 64 << 10


class PeerError(Exception):
    """code: the peer's own, or `unreachable` when it did not answer, `protocol` when it answered nonsense."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class StreamedTokens:
    token_ids: list[int]


@dataclass(frozen=True)
class StreamEnd:
    finish_reason: str


Parsed = TypeVar("Parsed", bound=BaseModel)
StreamEvent: TypeAlias = StreamedTokens | StreamEnd


class Peers:
    """One HTTP client for all peers. auth: what opens their control gate."""

    def __init__(self, auth: httpx.Auth) -> None:
        # The caller bounds every call by the request's deadline; proxies have no business between these processes.
        self._http = httpx.AsyncClient(
            auth=auth,
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def silent(self, url: str, seconds: float) -> bool:
        """Whether the peer says nothing for so long, as a stopped process does. One that refuses is not silent: it is gone."""
        return await self._health(url, seconds) == "silent"

    async def ready(self, url: str, seconds: float) -> bool:
        return await self._health(url, seconds) == 200

    async def _health(self, url: str, seconds: float) -> int | str:
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.get(f"{url}/health")
        except (TimeoutError, httpx.TimeoutException):
            return "silent"
        except httpx.HTTPError:
            return "gone"
        return response.status_code

    async def reserve(self, url: str, call: ReserveCall) -> Ticket:
        answer = await self._post(f"{url}/v1/reserve", call)
        return _parse(Ticket, answer.get("ticket"))

    async def prefill(self, url: str, call: PrefillCall) -> PrefillAnswer:
        return _parse(PrefillAnswer, await self._post(f"{url}/v1/prefill", call))

    async def abort(self, url: str, call: AbortCall) -> None:
        """Best effort: a peer that does not hear it has the request's deadline."""
        with contextlib.suppress(PeerError, httpx.HTTPError):
            await self._post(f"{url}/v1/abort", call, timeout=_ABORT_SECONDS)

    async def generate(self, url: str, call: GenerateCall) -> AsyncGenerator[StreamEvent, None]:
        """Ends after StreamEnd. Raises PeerError, also when the stream breaks off."""
        body = call.model_dump_json()
        try:
            async with self._http.stream(
                "POST", f"{url}/v1/generate", content=body, headers={"content-type": "application/json"}
            ) as response:
                if response.status_code != 200:
                    raise _refusal(response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    event = _event(line)
                    yield event
                    if isinstance(event, StreamEnd):
                        return
        except httpx.HTTPError as error:
            raise PeerError("unreachable", f"{url}: {_cause(error)}") from None
        raise PeerError("unreachable", f"{url}: the token stream broke off")

    async def _post(self, url: str, call: BaseModel, timeout: float | None = None) -> dict[str, Any]:
        try:
            response = await self._http.post(
                url,
                content=call.model_dump_json(),
                headers={"content-type": "application/json"},
                timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
            )
        except httpx.HTTPError as error:
            raise PeerError("unreachable", f"{url}: {_cause(error)}") from None
        if response.status_code != 200:
            raise _refusal(response.status_code, response.content)
        return _object(response.content)


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def _refusal(status: int, body: bytes) -> PeerError:
    try:
        error = _object(body)["error"]
        return PeerError(str(error["code"]), str(error["message"]))
    except (PeerError, KeyError, TypeError):
        return PeerError("protocol", f"HTTP {status} without an error body")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        raise PeerError("protocol", "the answer is not JSON") from None
    if not isinstance(value, dict):
        raise PeerError("protocol", "the answer is not a JSON object")
    return value


def _parse(kind: type[Parsed], value: object) -> Parsed:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise PeerError("protocol", f"the answer is not a {kind.__name__}: {error}") from None


def _event(line: str) -> StreamEvent:
    if len(line) > _LONGEST_LINE:
        raise PeerError("protocol", "a line of the token stream is too long")
    value = _object(line.encode())
    match value:
        case {"token_ids": list(ids)}:
            return StreamedTokens(ids)
        case {"finish_reason": str(reason)}:
            return StreamEnd(reason)
        case {"error": {"code": str(code), "message": str(message)}}:
            raise PeerError(code, message)
    raise PeerError("protocol", f"an unknown line in the token stream: {line[:100]!r}")
