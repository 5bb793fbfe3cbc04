"""The prefill engine: prompts in, KV out to decode while it is computed, first token sampled.

One thread computes, one request at a time, chunk by chunk. In each layer's attention the chunk's K and V are written
into the request's buffer and handed to the link's thread, which sends them while the rest of the layer, and the next
one, compute.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pdserve.attention import causal_attention
from pdserve.errors import Aborted, DeadlinePassed, EngineBusy, NotReady, detached
from pdserve.ledger import Held, HoldState
from pdserve.logs import log
from pdserve.model import LoadedModel
from pdserve.push_link import PushLink, PushLinks, Sent, Transfer
from pdserve.sampling import Sampling, sample
from pdserve.tensors import byte_view
from pdserve.transport.base import Connects, TransferFailed
from pdwire import CompatRecord, FirstToken, IncompatiblePeer, LayerFrame

if TYPE_CHECKING:
    import torch

# Requests whose KV is computed but still on its way. More would only hold memory: the network is then the bottleneck.
_MAX_IN_TRANSFER = 4
_CLOSE_SECONDS = 10.0
# Well below what a peer may refuse as too long (pdwire.Limits.max_frame_bytes).
_FRAME_BYTES = 16 << 20


@dataclass
class PrefillResult:
    """first_token follows the prompt.

    Seconds: kv, the link busy with this request; kv_exposed, from the end of computing to COMPLETE, which is what the
    transfer added to the first token's time; prefill, computing; queue, waiting for the engine.
    """

    first_token: int
    frames: int
    kv_bytes: int
    kv_seconds: float
    kv_exposed_seconds: float
    prefill_seconds: float
    queue_seconds: float


@dataclass(eq=False)
class PrefillJob:
    """deadline: `time.monotonic()` seconds. `cancelled` may be set from any thread at any time.

    state, held_bytes: for the ledger.
    """

    request: bytes
    token_ids: list[int]
    sampling: Sampling
    address: str
    deadline: float
    arrived: float = field(default_factory=time.monotonic)
    cancelled: threading.Event = field(default_factory=threading.Event)
    result: Future[PrefillResult] = field(default_factory=Future)
    state: HoldState = HoldState.WAITING
    held_bytes: int = 0

    def check(self) -> None:
        """Raises what ends the job early, if anything does."""
        if self.cancelled.is_set():
            raise Aborted("the router took the request back, or this process is stopping")
        if time.monotonic() > self.deadline:
            raise DeadlinePassed("the deadline passed during prefill")


class _Chunk:
    """Attention context of one chunk of one prompt. buffer: [layers, 2, prompt tokens, kv_heads, head_dim]."""

    def __init__(
        self, job: PrefillJob, buffer: torch.Tensor, model: LoadedModel, link: PushLink, transfer: Transfer
    ) -> None:
        self._job = job
        self._buffer = buffer
        self._model = model
        self._link = link
        self._transfer = transfer
        self._frame_tokens = max(1, _FRAME_BYTES // buffer[0, :, :1].nbytes)
        self.first = 0
        self.end = 0

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        self._job.check()
        if self._transfer.failed:
            self._transfer.done.result()
        planes = self._buffer[layer]
        planes[0, self.first : self.end] = key
        planes[1, self.first : self.end] = value
        for first in range(self.first, self.end, self._frame_tokens):
            self._push(layer, planes, first, min(first + self._frame_tokens, self.end))
        return causal_attention(query, planes[0, : self.end], planes[1, : self.end], scale)

    def _push(self, layer: int, planes: torch.Tensor, first: int, end: int) -> None:
        shape = self._model.architecture
        frame = LayerFrame(
            request=self._job.request,
            layer=layer,
            first_token=first,
            count=end - first,
            dtype=self._model.dtype,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
        )
        halves = [planes[which, first:end].cpu() for which in (0, 1)]
        body = [byte_view(half) for half in halves]
        self._link.push(self._transfer, frame, body)


class PrefillEngine:
    """Owns the model. `submit` from any thread; every job's future is settled, whatever happens."""

    def __init__(
        self, model: LoadedModel, transport: Connects, record: CompatRecord, *, chunk_tokens: int, max_waiting: int
    ) -> None:
        self._model = model
        self._chunk_tokens = chunk_tokens
        self._waiting: queue.Queue[PrefillJob | None] = queue.Queue(maxsize=max_waiting)
        self._links = PushLinks(transport, record)
        self._in_transfer = threading.Semaphore(_MAX_IN_TRANSFER)
        self._current: PrefillJob | None = None
        self._lock = threading.Lock()
        self._jobs: set[PrefillJob] = set()
        self._thread = threading.Thread(target=self._run, name="prefill", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    @property
    def busy(self) -> bool:
        with self._lock:
            return bool(self._jobs)

    @property
    def held(self) -> list[Held]:
        with self._lock:
            jobs = list(self._jobs)
        return [
            Held.since(job.request, job.state, job.held_bytes, job.arrived, job.deadline, job.address) for job in jobs
        ]

    def submit(self, job: PrefillJob) -> None:
        """Raises EngineBusy when the queue is full, ValueError when the prompt cannot be computed at all."""
        self._check_prompt(job.token_ids)
        with self._lock:
            try:
                self._waiting.put_nowait(job)
            except queue.Full:
                raise EngineBusy(f"{self._waiting.maxsize} requests are waiting for prefill already") from None
            self._jobs.add(job)
        # A callback stays with its future, and the future with the job: a strong reference would be a circle.
        reference = weakref.ref(job)
        job.result.add_done_callback(lambda _: self._let_go(reference()))

    def _let_go(self, job: PrefillJob | None) -> None:
        if job is not None:
            with self._lock:
                self._jobs.discard(job)

    def _check_prompt(self, token_ids: list[int]) -> None:
        shape = self._model.architecture
        if not 1 <= len(token_ids) <= shape.context:
            raise ValueError(f"a prompt of {len(token_ids)} tokens; this model takes 1 to {shape.context}")
        if not all(0 <= token < shape.vocabulary for token in token_ids):
            raise ValueError(f"a token id is outside 0..{shape.vocabulary - 1}")

    def close(self) -> None:
        """What the server's drain has left is aborted."""
        with contextlib.suppress(queue.Empty):
            while (job := self._waiting.get_nowait()) is not None:
                job.result.set_exception(NotReady("this prefill process is stopping"))
        if self._current is not None:
            self._current.cancelled.set()
        self._waiting.put(None)
        self._thread.join(timeout=_CLOSE_SECONDS)
        self._links.close()

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            self._current = job
            try:
                job.check()
                self._prefill(job)
            except (Aborted, DeadlinePassed, TransferFailed, IncompatiblePeer) as error:
                job.result.set_exception(detached(error))
            except Exception as error:  # one request's failure is not the engine's
                log("prefill_crashed", request=job.request.hex(), reason=repr(error))
                job.result.set_exception(detached(error))
            finally:
                self._current = None

    def _prefill(self, job: PrefillJob) -> None:
        started = time.monotonic()
        if not self._in_transfer.acquire(timeout=max(0.0, job.deadline - started)):
            raise DeadlinePassed("the deadline passed while earlier requests' KV was on its way")
        link = self._links.to(job.address)
        transfer = link.open(job.request, job.deadline)
        transfer.done.add_done_callback(lambda _: self._in_transfer.release())
        job.state = HoldState.COMPUTING
        try:
            token = self._compute(job, link, transfer)
        except BaseException as error:
            link.abort(transfer, str(error))
            raise
        computed = time.monotonic()
        job.state = HoldState.SENDING

        def settle(done: Future[Sent]) -> None:
            if error := done.exception():
                job.result.set_exception(error)
                return
            sent = done.result()
            job.result.set_result(
                PrefillResult(
                    first_token=token,
                    frames=sent.frames,
                    kv_bytes=sent.bytes,
                    kv_seconds=sent.link_seconds,
                    kv_exposed_seconds=time.monotonic() - computed,
                    prefill_seconds=computed - started,
                    queue_seconds=started - job.arrived,
                )
            )

        transfer.done.add_done_callback(settle)
        link.finish(transfer, FirstToken(request=job.request, token=token, prompt_tokens=len(job.token_ids)))

    def _compute(self, job: PrefillJob, link: PushLink, transfer: Transfer) -> int:
        import torch

        shape, tokens = self._model.architecture, len(job.token_ids)
        buffer = torch.empty(
            shape.layers,
            2,
            tokens,
            shape.kv_heads,
            shape.head_dim,
            dtype=self._model.torch_dtype,
            device=self._model.device,
        )
        job.held_bytes = buffer.nbytes
        chunk = _Chunk(job, buffer, self._model, link, transfer)
        logits: torch.Tensor | None = None
        for first in range(0, tokens, self._chunk_tokens):
            chunk.first, chunk.end = first, min(first + self._chunk_tokens, tokens)
            last = [chunk.end - first - 1] if chunk.end == tokens else []
            logits = self._model.forward(job.token_ids[first : chunk.end], range(first, chunk.end), chunk, last)
        assert logits is not None
        return sample(logits, [job.sampling], [tokens])[0]
