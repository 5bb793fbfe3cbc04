"""pdctl's own transports, end to end: sink, credits, headers, checksum of every frame at both ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.bench.kv.contender import Contender, Receiver, Sender
from tests.bench.kv.workload import Job

from pdserve.transport.base import Transport
from pdserve.transport.security import TransportSecurity
from pdserve.transport.segment import COPY_ENVIRONMENT, Segment
from pdserve.transport.shm import ShmTransport
from pdserve.transport.tcp import TcpTransport
from pdwire import SECRET_BYTES, FirstToken, LayerFrame, Limits, Places, Secret, Security

LIMITS = Limits(idle_s=3600)
"""Both processes of a contender are stopped while others run."""

ROUND_S = 120.0


class Sink:
    """The job's target as a cache: a frame's K and V are one piece each."""

    def __init__(self, job: Job, lends: bool) -> None:
        self._job = job
        self.segment: Segment | None = job.target if lends else None

    def lend(self, request: bytes) -> Places:
        return self._job.workload.places(request)

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        spans = self._job.workload.places(frame.request).spans(frame)
        return [self._job.target.view[offset : offset + size] for offset, size in spans]

    def landed(self, frame: LayerFrame) -> None: ...

    def first_token(self, done: FirstToken) -> None: ...

    def aborted(self, request: bytes, reason: str) -> None:
        raise RuntimeError(reason)


class OurReceiver:
    def __init__(self, job: Job, transport: Transport) -> None:
        sink = Sink(job, lends=transport.name == "shm")
        self._listener = transport.listen("127.0.0.1", 0, job.workload.record, sink)
        self.address = self._listener.address

    def prepare(self, number: int) -> None:
        return

    def close(self) -> None:
        self._listener.close()


class OurSender:
    def __init__(self, job: Job, address: str, transport: Transport) -> None:
        self._job = job
        self._sender = transport.connect(address, job.workload.record, deadline=time.monotonic() + 10)

    def round(self, number: int) -> None:
        source, deadline = self._job.source.view, time.monotonic() + ROUND_S
        request = b""
        for frame, spans in self._job.pieces(number):
            request = frame.request
            body = [source[offset : offset + size] for offset, size in spans]
            self._sender.push(frame, body, deadline=deadline)
        done = FirstToken(request=request, token=0, prompt_tokens=self._job.workload.tokens)
        self._sender.finish(done, deadline=deadline)

    def close(self) -> None:
        self._sender.close()


def ours(name: str, make: Callable[[], Transport], *, streams: int = 1, checksum: bool = True) -> Contender:
    def prepared() -> Transport:
        if not checksum:
            leave_out_checksum()
        return make()

    def receive(job: Job) -> Receiver:
        return OurReceiver(job, prepared())

    def send(job: Job, address: str) -> Sender:
        return OurSender(job, address, prepared())

    note = "" if checksum else "to show what the checksum costs; the product has no such switch"
    full = name if checksum else f"{name}, no checksum"
    environment = COPY_ENVIRONMENT if "shm" in name else {}
    return Contender(
        full, receive, send, verified=checksum, streams=streams, ours=True, environment=environment, note=note
    )


def leave_out_checksum() -> None:
    """In this process, for measuring alone."""
    from pdwire import connection, header

    class Nothing:
        value = 0

        def __init__(self, head: object) -> None: ...

        def update(self, piece: object) -> None: ...

    header.Checksum = connection.Checksum = Nothing  # type: ignore[assignment, misc]


SECRET = Secret(bytes(range(SECRET_BYTES)))
AUTHENTICATED, ENCRYPTED = (
    TransportSecurity(security, lambda: [SECRET]) for security in (Security.AUTHENTICATED, Security.ENCRYPTED)
)

CONTENDERS = [
    *(
        ours(name, make, streams=streams, checksum=checksum)
        for name, make, streams in (
            ("pdctl shm", lambda: ShmTransport(LIMITS, security=AUTHENTICATED), 1),
            ("pdctl tcp, 1 stream", lambda: TcpTransport(LIMITS, security=AUTHENTICATED), 1),
            ("pdctl tcp, 4 streams", lambda: TcpTransport(LIMITS, security=AUTHENTICATED, streams=4), 4),
        )
        for checksum in (True, False)
    ),
    *(
        ours(f"pdctl tcp, {count}, encrypted", make, streams=streams)
        for count, make, streams in (
            ("1 stream", lambda: TcpTransport(LIMITS, security=ENCRYPTED), 1),
            ("4 streams", lambda: TcpTransport(LIMITS, security=ENCRYPTED, streams=4), 4),
        )
    ),
]
