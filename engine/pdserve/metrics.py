"""What the processes count, in Prometheus base units (seconds, bytes).

One registry a process; names begin with `pdserve_`.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily

from pdserve.transport.meter import METER

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_GAPS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
_RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 12.0, 25.0, 50.0, 100.0)
_WAITS = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """What all three have: a registry, and how many requests are in work."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.running = self.gauge("requests_running", "Requests in work")
        self.waiting = self.gauge("requests_waiting", "Requests in a queue")
        self.failed = self.counter("requests_failed_total", "Requests that ended without an answer", ("code",))

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"pdserve_{name}", text, labels, registry=self.registry)

    def counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"pdserve_{name}", text, labels, registry=self.registry)

    def histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"pdserve_{name}", text, buckets=buckets, registry=self.registry)


class _TransportCounts:
    """What the transports count by themselves, read when somebody asks."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        counts = METER.counts
        for name, text, value in (
            (
                "kv_checksum_failures",
                "KV frames that arrived with other bytes than were sent",
                counts.checksum_failures,
            ),
            ("kv_unauthenticated", "KV connections that ended without a proof of the secret", counts.unauthenticated),
            ("kv_credit_waits", "Pushes that waited for decode's credit", counts.credit_waits),
            ("kv_credit_wait_seconds", "What they waited together", counts.credit_wait_seconds),
        ):
            yield CounterMetricFamily(f"pdserve_{name}", text, value=value)


class _TransferMetrics(Metrics):
    def __init__(self) -> None:
        super().__init__()
        self.kv_bytes = self.counter("kv_bytes_total", "KV bytes of transfers that ended whole")
        self.kv_frames = self.counter("kv_frames_total", "KV frames of transfers that ended whole")
        self.kv_frames_resent = self.counter("kv_frames_resent_total", "KV frames that arrived once more")
        self.kv_transfers_failed = self.counter("kv_transfers_failed_total", "Transfers that broke off")
        self.kv_transfer_seconds = self.histogram("kv_transfer_seconds", "First frame to last", _WAITS)
        self.kv_rate = self.histogram("kv_transfer_gb_per_second", "Bytes of a transfer by its time, 1e9 a GB", _RATES)
        self.registry.register(_TransportCounts())

    def transfer(self, size: int, frames: int, seconds: float, failure: str | None, resent: int = 0) -> None:
        self.kv_frames_resent.inc(resent)
        if failure is not None:
            self.kv_transfers_failed.inc()
            return
        self.kv_bytes.inc(size)
        self.kv_frames.inc(frames)
        self.kv_transfer_seconds.observe(seconds)
        if seconds > 0:
            self.kv_rate.observe(size / seconds / 1e9)


class PrefillMetrics(_TransferMetrics):
    def __init__(self) -> None:
        super().__init__()
        self.prompt_tokens = self.counter("prompt_tokens_total", "Prompt tokens computed")
        self.compute_seconds = self.histogram("prefill_seconds", "Computing one prompt", _WAITS)
        self.queue_seconds = self.histogram("prefill_queue_seconds", "Waiting before computing", _WAITS)


class DecodeMetrics(_TransferMetrics):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = self.counter("generated_tokens_total", "Tokens given out")
        self.step_seconds = self.histogram("step_seconds", "One step of the running batch", _GAPS)
        self.inter_token_seconds = self.histogram("inter_token_seconds", "Between two tokens of one request", _GAPS)
        self.kv_blocks = self.gauge("kv_blocks", "Blocks of the paged cache")
        self.kv_blocks_free = self.gauge("kv_blocks_free", "Blocks that no request holds")


class RouterMetrics(Metrics):
    def __init__(self) -> None:
        super().__init__()
        self.requests = self.counter("requests_total", "Requests by outcome", ("endpoint", "outcome"))
        self.prompt_tokens = self.counter("prompt_tokens_total", "Prompt tokens of answered requests")
        self.generated_tokens = self.counter("generated_tokens_total", "Tokens given to clients")
        self.recomputed = self.counter("recomputed_total", "Prompts that decode computed itself")
        self.resumed = self.counter("resumed_total", "Streams continued on another decode process")
        self.ttft_seconds = self.histogram("ttft_seconds", "Arrival to first token", _WAITS)
        self.inter_token_seconds = self.histogram("inter_token_seconds", "Between two tokens of one request", _GAPS)
