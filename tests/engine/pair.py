"""A prefill and a decode engine in the test's own process, joined by a real transport of this host.

`sink` and the two models are seams for tests that break something on purpose.
"""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from pdserve.decode import DecodeEngine
from pdserve.decode_request import DecodeEvent, Failed, Finished, NewTokens, Work
from pdserve.kv_cache import KvCache
from pdserve.kv_receiver import KvReceiver
from pdserve.metrics import DecodeMetrics
from pdserve.model import LoadedModel
from pdserve.prefill import PrefillEngine, PrefillJob
from pdserve.sampling import Sampling
from pdserve.transport.base import KvSink, Transport
from pdserve.transport.by_scheme import TRANSPORTS
from pdwire import Conversion

GREEDY = Sampling(temperature=0.0)
PATIENCE_S = 120.0


@dataclass
class Request:
    """One request on its way through the pair. `tokens` waits for its end."""

    id: bytes
    events: queue.SimpleQueue[DecodeEvent] = field(default_factory=queue.SimpleQueue)
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    job: PrefillJob | None = None

    def tokens(self) -> list[int]:
        while self.finish_reason is None:
            match self.events.get(timeout=PATIENCE_S):
                case NewTokens(token_ids):
                    self.token_ids += token_ids
                case Finished(reason):
                    self.finish_reason = reason
                case Failed(error):
                    raise error
        return self.token_ids


class Pair:
    def __init__(
        self,
        model: LoadedModel,
        *,
        decode_model: LoadedModel | None = None,
        sink: Callable[[KvReceiver, KvCache], KvSink] | None = None,
        chunk_tokens: int = 256,
        block_tokens: int = 16,
        memory_bytes: int = 256 << 20,
        max_running: int = 32,
        max_waiting: int = 32,
        transport: str | Transport = "tcp",
        can: Set[Conversion] = frozenset(),
    ) -> None:
        decode_model = model if decode_model is None else decode_model
        self.cache = KvCache(
            decode_model.architecture,
            decode_model.dtype,
            "cpu",
            block_tokens=block_tokens,
            memory_bytes=memory_bytes,
            shared=transport == "shm",
        )
        self.receiver = KvReceiver(self.cache, can=can)
        self.transport = TRANSPORTS[transport](None, can) if isinstance(transport, str) else transport
        self.metrics = DecodeMetrics()
        decode_record, prefill_record = (
            loaded.compat_record(
                name=name, block_tokens=size, capacity_tokens=1 << 16, transports=(self.transport.name,)
            )
            for loaded, name, size in ((decode_model, "d0", block_tokens), (model, "p0", 1))
        )
        target = self.receiver if sink is None else sink(self.receiver, self.cache)
        self._listen = lambda port: self.transport.listen("127.0.0.1", port, decode_record, target)
        self.listener = self._listen(0)
        self.decode = DecodeEngine(
            decode_model,
            self.cache,
            self.receiver,
            self.metrics,
            max_running=max_running,
            max_waiting=max_waiting,
            chunk_tokens=128,
        )
        self.prefill = PrefillEngine(
            model, self.transport, prefill_record, chunk_tokens=chunk_tokens, max_waiting=max_waiting
        )

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.prefill.close()
        self.listener.close()
        self.decode.close()

    def restart_listener(self) -> None:
        """Decode's end of the transport goes away, and comes back at its address."""
        self.listener.close()
        self.listener = self._listen(int(self.listener.address.rpartition(":")[2]))

    def start(
        self,
        prompt: list[int],
        max_tokens: int,
        sampling: Sampling = GREEDY,
        *,
        recompute: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> Request:
        """Reserves, attaches, and (unless decode is to recompute) starts prefill."""
        request = Request(secrets.token_bytes(16))
        deadline = time.monotonic() + patience_s
        self.decode.reserve(request.id, len(prompt), max_tokens, deadline).result(timeout=PATIENCE_S)
        self.decode.attach(request.id, Work(prompt, sampling, recompute, request.events.put))
        if not recompute:
            request.job = PrefillJob(request.id, prompt, sampling, self.listener.address, deadline)
            self.prefill.submit(request.job)
        return request

    def generate(
        self, prompt: list[int], max_tokens: int, sampling: Sampling = GREEDY, *, recompute: bool = False
    ) -> list[int]:
        return self.start(prompt, max_tokens, sampling, recompute=recompute).tokens()

    def wait_until_idle(self) -> None:
        """Raises TimeoutError if blocks are still held after 10 s."""
        end = time.monotonic() + 10.0
        while self.decode.busy or self.cache.free_blocks < self.cache.blocks:
            if time.monotonic() > end:
                raise TimeoutError(f"{self.cache.blocks - self.cache.free_blocks} blocks are still held")
            time.sleep(0.01)
        self.receiver.check_integrity()
