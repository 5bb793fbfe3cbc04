"""One request from its prompt to its last token, across as many attempts as its deadline allows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import ClassVar

from pdserve.logs import log
from pdserve.metrics import RouterMetrics
from pdserve.router.attempt import SILENT, Attempt, AttemptFailed, Blame
from pdserve.router.figures import RequestFigures
from pdserve.router.peers import Peers, StreamEnd
from pdserve.router.pool import Pool, PoolMember
from pdserve.sampling import Sampling

# Between two tries of a decode pool of which nobody answers: a restart is waited for, not hammered.
_RETRY_SECONDS = 0.2
# A peer that answers and fails again and again will not get better inside one request.
_MAX_ANSWERED_FAILURES = 4
# What a look at a peer's health may cost a request that has another way to go.
_LOOK_SECONDS = 0.5


class GenerationFailed(Exception):
    """The end of a request without an answer. status: HTTP."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Ask:
    """patience_s: longest wait for a next token. only: this very pair, no retry (the canary)."""

    prompt: list[int]
    max_tokens: int
    sampling: Sampling
    patience_s: float
    only: tuple[PoolMember, PoolMember] | None = None


@dataclass(frozen=True)
class Fleet:
    """What every generation needs of the router. eos_ids: of the model. live: those under way."""

    prefill: Pool
    decode: Pool
    peers: Peers
    metrics: RouterMetrics
    layers: int
    eos_ids: frozenset[int]
    live: set[Generation] = field(default_factory=set)

    @property
    def members(self) -> list[PoolMember]:
        return [*self.prefill.members, *self.decode.members]

    def stop(self) -> None:
        """The router ends: every generation under way fails with `shutting_down`, now."""
        for generation in self.live:
            generation.stop()


class Generation:
    """Iterate `tokens`; then `finish_reason` is set. Leaving early (aclose, cancel) aborts both legs."""

    _STATUS: ClassVar[dict[str, int]] = {
        "busy": 503,
        "not_ready": 503,
        "unreachable": 503,
        "deadline": 504,
        SILENT: 504,
    }

    def __init__(self, ask: Ask, fleet: Fleet) -> None:
        self._ask = ask
        self._fleet = fleet
        self._excluded: set[PoolMember] = set()
        self._gone: set[PoolMember] = set()  # excluded because they did not answer: they may come back
        self._answered_failures = 0
        self._answer: list[int] = []
        self._last_reason = ""
        self.finish_reason = "length"
        self.figures = RequestFigures(len(ask.prompt), fleet.layers)
        self._expires = self.figures.arrived + ask.patience_s
        self._stopped = False
        self._waiting: asyncio.Timeout | None = None

    def stop(self) -> None:
        """`tokens` fails with `shutting_down` in place of its next token."""
        self._stopped = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def tokens(self) -> AsyncGenerator[int, None]:
        """Raises GenerationFailed."""
        self._fleet.live.add(self)
        try:
            async with aclosing(self._tokens()) as tokens:
                async for token in tokens:
                    yield token
        finally:
            self._fleet.live.discard(self)

    async def _tokens(self) -> AsyncGenerator[int, None]:
        last: AttemptFailed | None = None
        while not self._complete():
            self._check_not_stopped()
            attempt = await self._next_attempt()
            try:
                async with aclosing(self._within_deadline(attempt)) as stream:
                    async for token in stream:
                        yield token
                return
            except TimeoutError:
                self._check_not_stopped()
                why = f"; the last failure: {last}" if last else ""
                message = f"no token for {self._ask.patience_s:g} s (waiting for {self._waiting_for(attempt)}){why}"
                raise GenerationFailed(504, "deadline", message) from None
            except AttemptFailed as failure:
                last = failure
                self._learn(attempt, failure)
                await self._look_for_silence(attempt, failure)
                await self._pause(failure)

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise GenerationFailed(503, "shutting_down", "this router is shutting down; send the request again")

    def _complete(self) -> bool:
        """A stream may break between its last token and the line that says why it was the last."""
        if self._answer and self._answer[-1] in self._fleet.eos_ids and not self._ask.sampling.ignore_eos:
            self.finish_reason = "stop"
            return True
        return len(self._answer) >= self._ask.max_tokens

    async def _next_attempt(self) -> Attempt:
        ask, fleet = self._ask, self._fleet
        if ask.only is not None:
            prefill, decode = ask.only
        else:
            decode, prefill = await self._choose_decode(), await self._choose_prefill()  # type: ignore[assignment]
        figures = self.figures
        figures.path = "recompute" if prefill is None else "split"
        figures.prefill = None if prefill is None else prefill.name
        figures.decode, figures.transfer = decode.name, None
        return Attempt(
            peers=fleet.peers,
            decode=decode,
            prefill=prefill,
            token_ids=ask.prompt + self._answer,
            max_tokens=ask.max_tokens - len(self._answer),
            sampling=ask.sampling,
            reserved=self._count,
        )

    async def _choose_decode(self) -> PoolMember:
        """Waits while every peer of the pool is frozen: it wakes, or is started again. Raises GenerationFailed."""
        while (chosen := self._fleet.decode.pick()) is not None and chosen.silent:
            self._check_not_stopped()
            if time.monotonic() + _RETRY_SECONDS > self._expires:
                message = f"no token for {self._ask.patience_s:g} s: no decode answers; {chosen.last_error}"
                raise GenerationFailed(504, "deadline", message)
            await asyncio.sleep(_RETRY_SECONDS)
        assert chosen is not None  # a pool has at least one peer
        return chosen

    async def _choose_prefill(self) -> PoolMember | None:
        """None: recompute. A prefill that has come back is better, once: one that keeps dying would take all the time."""
        pool = self._fleet.prefill
        silent = {member for member in pool.members if member.silent}
        chosen = pool.pick(self._excluded | silent)
        if chosen is None:
            for member in self._gone - silent:
                self._gone.discard(member)
                if await self._fleet.peers.ready(member.url, _LOOK_SECONDS):
                    return member
        return chosen

    async def _within_deadline(self, attempt: Attempt) -> AsyncGenerator[int, None]:
        """Raises TimeoutError when the next token does not come in time."""
        begun = False
        async with aclosing(attempt.events(self._expires)) as events:
            while True:
                self._check_not_stopped()
                try:
                    async with asyncio.timeout(max(0.0, self._expires - time.monotonic())) as self._waiting:
                        event = await anext(events)
                finally:
                    self._waiting = None
                if isinstance(event, StreamEnd):
                    self.finish_reason = event.finish_reason
                    break
                if self._answer and not begun:
                    self.figures.resumed += 1
                    self._fleet.metrics.resumed.inc()
                begun = True
                for token in event.token_ids:
                    self._note(token)
                    yield token
        self.figures.transfer = attempt.transfer

    def _count(self) -> None:
        """Looking whether decode is back is no attempt: one begins when decode has taken the request."""
        self.figures.attempts += 1

    def _note(self, token: int) -> None:
        now = time.monotonic()
        metrics, times = self._fleet.metrics, self.figures.token_times
        if times:
            metrics.inter_token_seconds.observe(now - times[-1])
        else:
            metrics.ttft_seconds.observe(now - self.figures.arrived)
            if self.figures.path == "recompute":
                metrics.recomputed.inc()
        times.append(now)
        self._answer.append(token)
        self._expires = now + self._ask.patience_s

    def _learn(self, attempt: Attempt, failure: AttemptFailed) -> None:
        """Raises GenerationFailed when another attempt would be no use."""
        if str(failure) != self._last_reason:  # a restart is waited for in many tries that all say the same
            self._last_reason = str(failure)
            log(
                "attempt_failed",
                blame=failure.blame,
                code=failure.code,
                reason=str(failure),
                prefill=attempt.prefill and attempt.prefill.name,
                decode=attempt.decode.name,
                tokens_so_far=len(self._answer),
            )
        if failure.code not in ("unreachable", "not_ready", SILENT):
            self._answered_failures += 1
        only = self._ask.only is not None
        busy = failure.code == "busy" and failure.blame is Blame.DECODE and len(self._fleet.decode.members) == 1
        if failure.blame is Blame.REQUEST:
            raise GenerationFailed(400, failure.code, str(failure))
        if only or busy or self._answered_failures >= _MAX_ANSWERED_FAILURES:
            raise GenerationFailed(self._STATUS.get(failure.code, 502), failure.code, str(failure))
        if failure.blame is Blame.DECODE:
            attempt.decode.failed(str(failure))
            self._excluded.clear()  # whatever prefill reported, it may have been decode's going
        elif attempt.prefill is not None:
            attempt.prefill.failed(str(failure))
            if failure.code == "unreachable" and attempt.prefill not in self._excluded:
                self._gone.add(attempt.prefill)
            self._excluded.add(attempt.prefill)

    async def _look_for_silence(self, attempt: Attempt, failure: AttemptFailed) -> None:
        """Decode may notice before the router that nothing comes: the next request must not wait for that again."""
        prefill = attempt.prefill
        if failure.blame is not Blame.PREFILL or prefill is None:
            return
        if failure.code == SILENT or (
            failure.code == "transfer_failed" and await self._fleet.peers.silent(prefill.url, _LOOK_SECONDS)
        ):
            prefill.fell_silent(str(failure))

    async def _pause(self, failure: AttemptFailed) -> None:
        """When no decode peer has answered of late. Raises GenerationFailed when the deadline passes first."""
        following = self._fleet.decode.pick()
        if failure.blame is not Blame.DECODE or following is None or not following.cooling:
            return
        if time.monotonic() + _RETRY_SECONDS > self._expires:
            message = f"no token for {self._ask.patience_s:g} s; the last failure: {failure}"
            raise GenerationFailed(504, "deadline", message)
        await asyncio.sleep(_RETRY_SECONDS)

    @staticmethod
    def _waiting_for(attempt: Attempt) -> str:
        prefill = attempt.prefill.name if attempt.prefill else "itself to recompute"
        return f"decode {attempt.decode.name}, which waits for {prefill}"
