"""`/internal/*` of the router: its state, the canary on a chosen pair, and the gate.

For operators' tools, not for clients.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pdserve.calls import Seconds, TokenIds
from pdserve.errors import BadRequest
from pdserve.http_json import read_call
from pdserve.logs import log
from pdserve.router.gate import Gate
from pdserve.router.generation import Ask, Fleet, Generation, GenerationFailed
from pdserve.router.pool import Pool, PoolMember
from pdserve.sampling import Sampling


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CanaryCall(_Strict):
    """prefill, decode: names of the pair; None takes the least busy."""

    token_ids: TokenIds
    max_tokens: int = Field(default=16, ge=1, le=1024)
    prefill: str | None = None
    decode: str | None = None
    timeout_s: Seconds | None = None


class CloseCall(_Strict):
    reason: str = Field(default="closed by an operator", min_length=1, max_length=200)


class Control:
    def __init__(self, gate: Gate, fleet: Fleet, patience_s: float) -> None:
        self._gate = gate
        self._fleet = fleet
        self._patience_s = patience_s

    async def state(self, _: Request) -> Response:
        pools = {"prefill": self._fleet.prefill, "decode": self._fleet.decode}
        return JSONResponse(self._gate.state() | {name: _members(pool) for name, pool in pools.items()})

    async def open(self, _: Request) -> Response:
        self._gate.open()
        log("opened")
        return JSONResponse(self._gate.state())

    async def close(self, request: Request) -> Response:
        call = await read_call(request, CloseCall)
        self._gate.close(call.reason)
        log("closed", reason=call.reason)
        return JSONResponse(self._gate.state())

    async def canary(self, request: Request) -> Response:
        """Greedy, past end-of-answer ids, on one pair, without fallback: it is this pair that is asked about."""
        call = await read_call(request, CanaryCall)
        pair = _member(self._fleet.prefill, call.prefill), _member(self._fleet.decode, call.decode)
        ask = Ask(
            prompt=call.token_ids,
            max_tokens=call.max_tokens,
            sampling=Sampling(temperature=0.0, ignore_eos=True),
            patience_s=call.timeout_s or self._patience_s,
            only=pair,
        )
        generation = Generation(ask, self._fleet)
        try:
            async with aclosing(generation.tokens()) as tokens:
                token_ids = [token async for token in tokens]
        except GenerationFailed as failure:
            error = {"code": failure.code, "message": str(failure)}
            return JSONResponse({"error": error}, status_code=failure.status)
        return JSONResponse({"token_ids": token_ids, "pdctl": generation.figures.report()})


def _member(pool: Pool, name: str | None) -> PoolMember:
    member = pool.pick() if name is None else pool.named(name)
    if member is None:
        known = ", ".join(member.name for member in pool.members)
        raise BadRequest(f"no peer is named `{name}` (known: {known})")
    return member


def _members(pool: Pool) -> list[dict[str, Any]]:
    return [
        {"name": member.name, "url": member.url, "in_flight": member.in_flight, "last_error": member.last_error}
        for member in pool.members
    ]
