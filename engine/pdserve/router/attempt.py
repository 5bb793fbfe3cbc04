"""One try of one request on one pair: reserve, prefill and stream, until the end or the first failure.

Both legs run as tasks that report into one queue. Whatever way the attempt is left, both are ended, and decode is told.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from pdserve.calls import AbortCall, GenerateCall, PrefillAnswer, PrefillCall, PrefillFigures, ReserveCall, Ticket
from pdserve.router.peers import PeerError, Peers, StreamEnd, StreamEvent
from pdserve.router.pool import PoolMember
from pdserve.sampling import Sampling

# Prefill says that the transfer failed: decode, if it is alive, will say so too and is the one to ask why.
_SECOND_OPINION_SECONDS = 0.5
# A prefill that computes answers beside it; one that is stopped does not. It is asked after a share of what is left of the
# deadline and has as much to answer, so that a recompute always has most of it; not so little that load looks like death.
_PROBE_SHARE = 1 / 6
_PROBE_AT_LEAST_SECONDS = 1.0

# How often a request looks whether its decode is still heard.
_LOOK_EVERY_SECONDS = 0.5
# The code of a peer that holds its connections and says nothing.
SILENT = "silent"


class Blame(StrEnum):
    """Who is to be tried differently next time."""

    PREFILL = "prefill"
    DECODE = "decode"
    REQUEST = "request"


class AttemptFailed(Exception):
    def __init__(self, blame: Blame, error: PeerError) -> None:
        super().__init__(str(error))
        self.blame = blame
        self.code = error.code


@dataclass(frozen=True)
class _PrefillFailed:
    error: PeerError


@dataclass(frozen=True)
class _DecodeFailed:
    error: PeerError


_News: TypeAlias = StreamEvent | PrefillAnswer | _PrefillFailed | _DecodeFailed

# What ends attempts in the background; the event loop itself holds tasks only weakly.
_ENDINGS: set[asyncio.Task[None]] = set()
# Codes that a retry elsewhere cannot change.
_FINAL = ("bad_request", "too_long")


@dataclass
class Attempt:
    """prefill None: decode computes the prompt itself. reserved: called when decode has taken the request.

    transfer: filled when prefill has reported.
    """

    peers: Peers
    decode: PoolMember
    prefill: PoolMember | None
    token_ids: list[int]
    max_tokens: int
    sampling: Sampling
    reserved: Callable[[], None]
    transfer: PrefillFigures | None = None

    def __post_init__(self) -> None:
        # An attempt's own: late frames of one that failed can never meet the blocks of the next.
        self._id = secrets.token_hex(16)
        self._news: asyncio.Queue[_News] = asyncio.Queue()

    async def events(self, expires: float) -> AsyncGenerator[StreamEvent, None]:
        """expires: `time.monotonic()` seconds, until the first event; later waits are the caller's to bound.

        Raises AttemptFailed.
        """
        with self.decode.working():
            ticket = await self._unless_silent(self._reserve(expires))
            self.reserved()
            legs = [asyncio.create_task(self._generate()), asyncio.create_task(self._watch_decode())]
            if self.prefill is not None:
                legs.append(asyncio.create_task(self._prefill(self.prefill, ticket, expires)))
            ended = False
            try:
                async with aclosing(self._judge()) as judged:
                    async for event in judged:
                        ended = isinstance(event, StreamEnd)
                        yield event
            finally:
                # Shielded: a client that leaves cancels this task at every await, and decode must still be told.
                ending = asyncio.create_task(self._end(legs, told=ended))
                _ENDINGS.add(ending)
                ending.add_done_callback(_ENDINGS.discard)
                await asyncio.shield(ending)

    async def _end(self, legs: list[asyncio.Task[None]], *, told: bool) -> None:
        if told and self.transfer is None and self.prefill is not None:
            await asyncio.wait(legs[-1:], timeout=_SECOND_OPINION_SECONDS)  # its figures are on their way
            self._collect()
        for leg in legs:
            leg.cancel()
        await asyncio.gather(*legs, return_exceptions=True)
        if not told:
            await self.peers.abort(
                self.decode.url, AbortCall(request_id=self._id, reason="the router gave the attempt up")
            )

    def _collect(self) -> None:
        while not self._news.empty():
            news = self._news.get_nowait()
            if isinstance(news, PrefillAnswer):
                self.transfer = news.figures

    async def _reserve(self, expires: float) -> Ticket:
        call = ReserveCall(
            request_id=self._id,
            prompt_tokens=len(self.token_ids),
            max_tokens=self.max_tokens,
            deadline_s=_left(expires),
        )
        try:
            return await self.peers.reserve(self.decode.url, call)
        except PeerError as error:
            raise AttemptFailed(_blame_decode(error), error) from None

    async def _unless_silent(self, reserving: Coroutine[Any, Any, Ticket]) -> Ticket:
        """Raises AttemptFailed as soon as decode is known to be frozen, or as `reserving` does."""
        reserve, watch = asyncio.create_task(reserving), asyncio.create_task(self._watch_decode())
        try:
            await asyncio.wait({reserve, watch}, return_when=asyncio.FIRST_COMPLETED)
            if reserve.done():
                return reserve.result()
        finally:
            reserve.cancel()
            watch.cancel()
            await asyncio.gather(reserve, watch, return_exceptions=True)
        raise AttemptFailed(Blame.DECODE, self._silence())

    async def _watch_decode(self) -> None:
        """Ends with the news that decode is frozen. The router's heartbeat finds out (router.heartbeat)."""
        while not self.decode.silent:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
        self._news.put_nowait(_DecodeFailed(self._silence()))

    def _silence(self) -> PeerError:
        return PeerError(SILENT, self.decode.last_error or f"{self.decode.url}: says nothing")

    async def _generate(self) -> None:
        call = GenerateCall(
            request_id=self._id,
            token_ids=self.token_ids,
            sampling=self.sampling,
            recompute=self.prefill is None,
        )
        try:
            async with aclosing(self.peers.generate(self.decode.url, call)) as events:
                async for event in events:
                    self.decode.heard()
                    self._news.put_nowait(event)
        except PeerError as error:
            self._news.put_nowait(_DecodeFailed(error))

    async def _prefill(self, prefill: PoolMember, ticket: Ticket, expires: float) -> None:
        call = PrefillCall(
            request_id=self._id,
            token_ids=self.token_ids,
            sampling=self.sampling,
            ticket=ticket,
            deadline_s=_left(expires),
        )
        with prefill.working():
            watching = asyncio.create_task(self._watch(prefill.url, _left(expires)))
            try:
                self._news.put_nowait(await self.peers.prefill(prefill.url, call))
            except PeerError as error:
                self._news.put_nowait(_PrefillFailed(error))
            finally:
                watching.cancel()

    async def _watch(self, url: str, left_s: float) -> None:
        seconds = max(_PROBE_AT_LEAST_SECONDS, left_s * _PROBE_SHARE)
        while True:
            await asyncio.sleep(seconds)
            if await self.peers.silent(url, seconds):
                reason = f"{url}: is there but has said nothing for {seconds:.1f} s"
                self._news.put_nowait(_PrefillFailed(PeerError(SILENT, reason)))
                return

    async def _judge(self) -> AsyncGenerator[StreamEvent, None]:
        begun = False
        while True:
            match await self._news.get():
                case PrefillAnswer() as answer:
                    self.transfer = answer.figures
                case _PrefillFailed(error):
                    if not begun:  # else decode had everything already
                        raise await self._second_opinion(error)
                case _DecodeFailed(error):
                    raise AttemptFailed(_blame_decode(error), error)
                case event:
                    begun = True
                    yield event
                    if isinstance(event, StreamEnd):
                        return

    async def _second_opinion(self, error: PeerError) -> AttemptFailed:
        if error.code in _FINAL:
            return AttemptFailed(Blame.REQUEST, error)
        if error.code == "transfer_failed":
            try:
                async with asyncio.timeout(_SECOND_OPINION_SECONDS):
                    news = await self._news.get()
            except TimeoutError:
                pass
            else:
                if isinstance(news, _DecodeFailed):
                    return AttemptFailed(_blame_decode(news.error), news.error)
        return AttemptFailed(Blame.PREFILL, error)


def _blame_decode(error: PeerError) -> Blame:
    """What an error that decode reported says about whom to change."""
    if error.code in _FINAL:
        return Blame.REQUEST
    return Blame.PREFILL if error.code == "transfer_failed" else Blame.DECODE


def _left(expires: float) -> float:
    return max(0.001, expires - time.monotonic())
