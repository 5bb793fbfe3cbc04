"""The calls that the supervisor makes to its units (docs/engine.md, *Control HTTP*), bounded in time and in size."""

from dataclasses import dataclass
from typing import Any

import httpx

from pdserve.control_auth import ControlAuth
from pdserve.secret_file import SecretFile


class CallFailed(Exception):
    """No answer, or one that says no; the text says which, with the unit's own words."""


@dataclass(frozen=True, slots=True)
class CanaryAnswer:
    """token_ids: what decode produced. figures: what crossed (docs/engine.md)."""

    token_ids: list[int]
    figures: dict[str, Any]


class Control:
    """One client for all units of a deployment. Proxies of the environment are never asked: the units are local.

    run: of the deployment; who answers in its place for another is not one of its units.
    """

    def __init__(self, secret: SecretFile, run: str) -> None:
        self._run = run
        self._client = httpx.AsyncClient(auth=ControlAuth(secret), trust_env=False, timeout=5.0)

    async def close(self) -> None:
        await self._client.aclose()

    async def engine_unready(self, url: str) -> str | None:
        """None when a prefill or decode process is ready, else why not."""
        try:
            status, answer = await self._health(url)
        except CallFailed as error:
            return str(error)
        if status == 200:
            return None
        return f"{answer.get('status', 'not ready')}" + (f": {answer['reason']}" if answer.get("reason") else "")

    async def router_unready(self, url: str) -> str | None:
        """None when the router answers, open or closed, else why not."""
        try:
            _, answer = await self._health(url)
        except CallFailed as error:
            return str(error)
        return None if answer.get("status") in ("open", "closed") else f"answers {answer}"

    async def is_open(self, url: str) -> bool:
        _, answer = await self._health(url)
        return answer.get("status") == "open"

    async def info(self, url: str) -> dict[str, Any]:
        status, answer = await self._get(f"{url}/v1/info")
        if status != 200:
            raise CallFailed(_said(status, answer))
        return answer

    async def canary(self, url: str, token_ids: list[int], max_tokens: int, timeout_s: float) -> CanaryAnswer:
        body = {"token_ids": token_ids, "max_tokens": max_tokens}
        answer = await self._post(f"{url}/internal/canary", body, timeout_s)
        try:
            return CanaryAnswer([int(token) for token in answer["token_ids"]], dict(answer["pdctl"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CallFailed(f"the canary's answer is not one: {answer}") from error

    async def open(self, url: str) -> None:
        await self._post(f"{url}/internal/open", {}, 10.0)

    async def shut(self, url: str, reason: str) -> None:
        await self._post(f"{url}/internal/close", {"reason": reason}, 10.0)

    async def _health(self, url: str) -> tuple[int, dict[str, Any]]:
        status, answer = await self._get(f"{url}/health")
        if answer.get("run") != self._run:
            raise CallFailed("another process answers on its port")
        return status, answer

    async def _get(self, url: str) -> tuple[int, dict[str, Any]]:
        try:
            response = await self._client.get(url)
        except httpx.HTTPError as error:
            raise CallFailed(_why(error)) from error
        return response.status_code, _object(response)

    async def _post(self, url: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        try:
            response = await self._client.post(url, json=body, timeout=timeout_s)
        except httpx.HTTPError as error:
            raise CallFailed(_why(error)) from error
        answer = _object(response)
        if response.status_code != 200:
            raise CallFailed(_said(response.status_code, answer))
        return answer


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError:
        return {"status": f"HTTP {response.status_code} without JSON"}
    return answer if isinstance(answer, dict) else {}


def _said(status: int, answer: dict[str, Any]) -> str:
    error = answer.get("error")
    words = error.get("message") if isinstance(error, dict) else answer.get("reason")
    return f"HTTP {status}: {words or answer}"


def _why(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.ConnectError):
        return "does not listen yet"
    if isinstance(error, httpx.TimeoutException):
        return "does not answer in time"
    return str(error) or type(error).__name__
