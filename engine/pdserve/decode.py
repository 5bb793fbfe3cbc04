"""The decode engine: reservations, and a loop that steps everything that runs.

One thread computes. Other threads reserve, attach work, abort, and (the transport's) report transfers; they meet
under one lock, which is never held during a step. Blocks for the whole answer are set aside at reservation, so a
running request is never preempted: what cannot be reserved waits in a bounded queue, in order of arrival.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future

from pdserve.decode_request import DecodeRequest, Failed, Finished, NewTokens, Work
from pdserve.decode_step import ChunkPace, Row, plan, step
from pdserve.errors import (
    Aborted,
    BadRequest,
    DeadlinePassed,
    EngineBusy,
    EngineError,
    NotReady,
    TooLong,
    TransferBroken,
    UnknownRequest,
)
from pdserve.kv_cache import KvCache
from pdserve.kv_receiver import KvReceiver, Reservation
from pdserve.ledger import Held, HoldState
from pdserve.logs import log
from pdserve.metrics import DecodeMetrics
from pdserve.model import LoadedModel
from pdserve.transfers import TransferLog
from pdserve.transport.base import KvRefused


class DecodeEngine:
    """Owns model, cache and receiver. Every accepted request ends with exactly one Finished or Failed event."""

    def __init__(
        self,
        model: LoadedModel,
        cache: KvCache,
        receiver: KvReceiver,
        metrics: DecodeMetrics,
        *,
        max_running: int,
        max_waiting: int,
        chunk_tokens: int,
    ) -> None:
        self._model = model
        self._cache = cache
        self._receiver = receiver
        self.transfers = TransferLog()
        self._metrics = metrics
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._pace = ChunkPace(chunk_tokens)
        self._changed = threading.Condition()
        self._requests: dict[bytes, DecodeRequest] = {}  # reserved ones, running or not
        self._queue: deque[tuple[DecodeRequest, Future[None]]] = deque()
        self._running: list[DecodeRequest] = []
        self._stopping = False
        receiver.on_freed = self._blocks_freed
        self._thread = threading.Thread(target=self._run, name="decode", daemon=True)
        self._thread.start()

    # What servers call, from any thread

    @property
    def busy(self) -> bool:
        with self._changed:
            return bool(self._requests or self._queue)

    @property
    def held(self) -> list[Held]:
        """What waits, what holds blocks, and blocks that the transport has not let go of yet."""
        with self._changed:
            known = [request for request, _ in self._queue] + list(self._requests.values())
            entries = [Held.since(one.request, one.state, self._bytes(one), one.arrived, one.lease) for one in known]
            for left in self._receiver.reservations:
                if left.request not in self._requests:
                    size = self._cache.bytes_of(left.table)
                    entries.append(Held.since(left.request, HoldState.LETTING_GO, size, left.began, None))
            return entries

    def _bytes(self, request: DecodeRequest) -> int:
        return 0 if request.reservation is None else self._cache.bytes_of(request.reservation.table)

    def reserve(self, request: bytes, prompt_tokens: int, max_tokens: int, deadline: float) -> Future[None]:
        """Done when the blocks are set aside.

        Raises TooLong, EngineBusy, BadRequest or NotReady at once; DeadlinePassed or Aborted later.
        """
        wanted = DecodeRequest(request, prompt_tokens, max_tokens, deadline)
        self._check_length(wanted)
        granted: Future[None] = Future()
        with self._changed:
            if self._stopping:
                raise NotReady("this decode process is stopping")
            if request in self._requests or any(waiting.request == request for waiting, _ in self._queue):
                raise BadRequest(f"request {request.hex()} is reserved already")
            if len(self._queue) >= self._max_waiting:
                raise EngineBusy(f"{self._max_waiting} requests are waiting for KV blocks already")
            self._queue.append((wanted, granted))
            self._admit()
            self._changed.notify()
        return granted

    def _check_length(self, wanted: DecodeRequest) -> None:
        if wanted.prompt_tokens < 1 or wanted.max_tokens < 1:
            raise BadRequest("prompt_tokens and max_tokens must be at least 1")
        for limit, name in (
            (self._model.architecture.context, "the model's context"),
            (self._cache.capacity_tokens, "the whole KV cache"),
        ):
            if wanted.total_tokens > limit:
                raise TooLong(
                    f"{wanted.prompt_tokens} prompt tokens and {wanted.max_tokens} new ones are more than "
                    f"{name} holds ({limit})"
                )

    def attach(self, request: bytes, work: Work) -> None:
        """Starts the answer as soon as the KV is whole (or at once, to recompute).

        Raises UnknownRequest or BadRequest.
        """
        with self._changed:
            known = self._requests.get(request)
            if known is None:
                raise UnknownRequest(f"request {request.hex()} is not reserved here: it ended, or never was")
            if known.work is not None:
                raise BadRequest(f"request {request.hex()} is being generated already")
            if len(work.token_ids) != known.prompt_tokens:
                raise BadRequest(f"{len(work.token_ids)} token ids, {known.prompt_tokens} were reserved")
            if not all(0 <= token < self._model.architecture.vocabulary for token in work.token_ids):
                raise BadRequest(f"a token id is outside 0..{self._model.architecture.vocabulary - 1}")
            known.work = work
            self._fail_if_broken(known)
            self._changed.notify()

    def abort(self, request: bytes, reason: str) -> bool:
        """False if nothing was known of it. Idempotent."""
        with self._changed:
            for entry in [entry for entry in self._queue if entry[0].request == request]:
                self._queue.remove(entry)
                entry[1].set_exception(Aborted(reason))
                return True
            known = self._requests.get(request)
            if known is None or known.ended:
                return False
            self._end(known, Failed(Aborted(reason)))
            self._changed.notify()
            return True

    def close(self) -> None:
        """Fails what is left and ends the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(timeout=30.0)

    # The transport's news

    def _transfer_settled(self, reservation: Reservation) -> None:
        self.transfers.settled(reservation)
        with self._changed:
            known = self._requests.get(reservation.request)
            if known is None:
                return
            figures = reservation.figures
            seconds = figures.settled_at - figures.first_frame_at
            self._metrics.transfer(figures.bytes, figures.frames, seconds, reservation.failure, figures.resent)
            self._fail_if_broken(known)
            self._changed.notify()

    def _blocks_freed(self) -> None:
        with self._changed:
            self._admit()

    def _fail_if_broken(self, request: DecodeRequest) -> None:
        failure = request.reservation.failure if request.reservation else None
        if failure is not None and request.work is not None:
            self._end(request, Failed(TransferBroken(failure)))

    # The loop. Methods below are called with the lock held, unless they say otherwise.

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._stopping or self._join_ready()):
                    self._changed.wait(self._expire())
                self._expire()
                if self._stopping:
                    self._fail_all()
                    return
                rows = plan(self._running, self._pace)
            tokens, error = self._step(rows) if rows else ([], None)
            with self._changed:
                self._apply(rows, tokens, error)

    def _step(self, rows: list[Row]) -> tuple[list[int], Exception | None]:
        """Without the lock."""
        try:
            with self._metrics.step_seconds.time():
                return step(self._model, self._cache, rows, self._pace), None
        except Exception as error:  # a broken step must not end the thread in silence
            log("decode_step_failed", reason=repr(error))
            return [], error

    def _admit(self) -> None:
        while self._queue and len(self._requests) < self._max_running:
            request, granted = self._queue[0]
            try:
                reservation = self._receiver.reserve(
                    request.request, request.prompt_tokens, request.total_tokens, self._transfer_settled
                )
            except KvRefused as error:
                self._queue.popleft()
                granted.set_exception(BadRequest(str(error)))
                continue
            if reservation is None:
                break
            self._queue.popleft()
            request.reservation = reservation
            self._requests[request.request] = request
            granted.set_result(None)
        self._metrics.waiting.set(len(self._queue))
        self._metrics.kv_blocks_free.set(self._cache.free_blocks)

    def _join_ready(self) -> bool:
        """Lets what is ready into the batch, and what has ended out of it. True when there is something to step."""
        for request in self._requests.values():
            if request.ready and not request.running and not request.ended:
                request.running = True
                self._running.append(request)
                self._start(request)
        for request in [request for request in self._running if request.ended]:
            self._running.remove(request)
            self._forget(request)
        self._metrics.running.set(len(self._running))
        return bool(self._running)

    def _start(self, request: DecodeRequest) -> None:
        work, reservation = request.work, request.reservation
        assert work is not None and reservation is not None
        request.tokens = list(work.token_ids)
        first = reservation.first_token
        if not work.recompute and first is not None:
            request.computed = request.prompt_tokens
            self._append(request, first.token)

    def _append(self, request: DecodeRequest, token: int) -> None:
        work = request.work
        assert work is not None
        now = time.monotonic()
        if len(request.tokens) > request.prompt_tokens:
            self._metrics.inter_token_seconds.observe(now - request.last_token_at)
        request.last_token_at = now
        request.tokens.append(token)
        self._metrics.tokens.inc()
        work.emit(NewTokens([token]))
        reason = request.finish_reason(self._model.architecture.eos_ids)
        if reason is not None:
            self._end(request, Finished(reason))

    def _apply(self, rows: list[Row], tokens: list[int], error: Exception | None) -> None:
        upcoming = iter(tokens)
        for row in rows:
            if error is not None:
                self._end(row.request, Failed(EngineError(f"the step failed: {error!r}")))
                continue
            row.request.computed = row.end
            token = next(upcoming) if row.samples else None
            if token is not None and not row.request.ended:
                self._append(row.request, token)

    def _end(self, request: DecodeRequest, event: Finished | Failed) -> None:
        """Tells the listener. A running request's blocks stay until the step in work is over."""
        if request.ended:
            return
        request.ended = True
        if isinstance(event, Failed):
            self._metrics.failed.labels(event.error.code).inc()
        if request.work is not None:
            request.work.emit(event)
        if not request.running:
            self._forget(request)

    def _forget(self, request: DecodeRequest) -> None:
        self._requests.pop(request.request, None)
        self._receiver.release(request.request)
        self._admit()

    def _expire(self) -> float | None:
        """Ends what waited too long; returns seconds to the next deadline, None when there is none."""
        now = time.monotonic()
        for entry in [entry for entry in self._queue if entry[0].deadline <= now]:
            self._queue.remove(entry)
            entry[1].set_exception(DeadlinePassed("no KV blocks became free before the deadline"))
        waiting = [request for request in self._requests.values() if not request.running]
        for request in waiting:
            if request.deadline <= now:
                self._end(request, Failed(DeadlinePassed("the KV was not whole before the deadline")))
        left = [request.deadline for request, _ in self._queue] + [r.deadline for r in waiting if r.deadline > now]
        return max(0.0, min(left) - now) if left else None

    def _fail_all(self) -> None:
        for request, granted in self._queue:
            granted.set_exception(NotReady(f"stopping; request {request.request.hex()} was not begun"))
        self._queue.clear()
        for request in list(self._requests.values()):
            self._end(request, Failed(NotReady("this decode process is stopping")))
            if request.running:
                self._forget(request)
        self._running.clear()
