"""What a KV transport is. Every transport implements this and passes one contract suite.

How it is meant to work, for one request on one pair:

    decode                                   prefill
    sink reserves blocks, gives a ticket  →  (through the router)
                                             sender.push(...)   once per layer and chunk, as soon as it is computed
    sink.place(frame) → views             ←  KV frame
    sink.landed(frame)                       (checksum verified first)
                                             sender.finish(...) once, with the first token
    sink.first_token(done)                ←  FIRST_TOKEN
                                          →  COMPLETE, or ABORT with the reason

The sink is called from the transport's own threads, never concurrently for one request, possibly concurrently for
different requests. It must not block beyond a lock, and `place` for room to stage a frame, two seconds at most: a slow
sink stalls its connection. A transport never calls the
sink for bytes that have not verified, apart from `place`, whose views are scratch until `landed`.

Memory that `place` gave away is written to until `landed` for that frame or `aborted` for that request is called; only
then may the engine use its blocks for something else. An engine that wants a request's blocks back earlier (the client
went away, a lease ran out) calls `KvListener.abort` and heeds its answer.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pdserve.transport.segment import Segment
from pdwire import AbortCode, CompatRecord, FirstToken, Hello, LayerFrame, Places


class KvRefused(Exception):
    """The sink's no: unknown request, expired lease, a shape or token range that does not fit. Goes back as ABORT."""


class TransferFailed(Exception):
    """The sender's end of it: the peer refused, broke off, or did not answer inside the deadline.

    code: says which. CANCELLED and REFUSED speak of this request alone; after the others another peer may do better.
    """

    def __init__(self, message: str, code: AbortCode = AbortCode.INTERNAL) -> None:
        super().__init__(message)
        self.code = code


class KvSink(Protocol):
    """The receiving engine, as a transport sees it."""

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        """Writable byte views that, in order, take exactly the frame's body: K of all its tokens, then V.

        Raises KvRefused; no byte of the body is then stored anywhere.
        """
        ...

    def landed(self, frame: LayerFrame) -> None:
        """The body is in the views and its checksum is right. The same frame may land twice (a resend)."""
        ...

    def first_token(self, done: FirstToken) -> None:
        """The sender is finished. Raises KvRefused, naming them, if frames are missing."""
        ...

    def aborted(self, request: bytes, reason: str) -> None:
        """The sender gave up, the connection broke, or a frame failed to verify: nothing more will come from it."""
        ...


@runtime_checkable
class LendingSink(KvSink, Protocol):
    """A sink whose memory a prefill process of this host may write itself: an optional power, used by `shm`.

    For a lent request `place` and `landed` are called after its bytes are there; `place` gives the same memory that
    `lend` named. What is lent is written to until `first_token` has been taken or `aborted` is called, not only while
    a frame is between `place` and `landed`.
    """

    @property
    def segment(self) -> Segment | None:
        """None: not after all, its memory is none that processes can share."""
        ...

    def lend(self, request: bytes) -> Places:
        """Where in the segment all of the request's KV goes. Raises KvRefused."""
        ...


@runtime_checkable
class GreetedSink(KvSink, Protocol):
    """A sink that wants to know who connects: an optional power."""

    def greeted(self, hello: Hello) -> None:
        """What a prefill process says of itself. The two fit, and where there is a secret it has proved itself."""
        ...


class KvListener(Protocol):
    """A receiving end that is up."""

    @property
    def address(self) -> str:
        """What a sender connects to; it travels in tickets. Shape: `tcp://127.0.0.1:7101`."""
        ...

    def abort(self, request: bytes, reason: str) -> bool:
        """The engine no longer wants it: tells the sender, and drops what is still on its way.

        True: a frame of it is just being written; `aborted` will be called when its memory is free. False: nothing of
        it is being written, and nothing will be unless `place` agrees to it again; `aborted` will not be called.
        """
        ...

    def close(self) -> None:
        """Says goodbye to every sender. Unfinished requests are `aborted`; afterwards the sink is not called."""
        ...


class KvSender(Protocol):
    """One connection from a prefill engine to one decode engine, used for many requests, by many threads."""

    @property
    def peer(self) -> CompatRecord: ...

    @property
    def alive(self) -> bool:
        """False once the connection is gone, however it went, or its secret is no longer the one to use: connect anew."""
        ...

    def push(
        self,
        frame: LayerFrame,
        body: Sequence[memoryview],
        *,
        deadline: float,
    ) -> None:
        """Sends one frame. body: contiguous views, together exactly the frame's body; free for reuse on return.

        deadline: `time.monotonic()` seconds. Raises TransferFailed; the request is then aborted at the peer, and every
        later call for it fails at once. A frame of which a part is sent is not cut off by the deadline, since that
        would cost the other requests their connection: it has the transport's own, short, frame deadline to finish.
        """
        ...

    def finish(self, done: FirstToken, *, deadline: float) -> None:
        """Sends the first token and returns when the peer has said COMPLETE. Raises TransferFailed."""
        ...

    def abort(self, request: bytes, reason: str) -> None:
        """Tells the peer to forget the request. Never raises."""
        ...

    def close(self) -> None: ...


class Connects(Protocol):
    def connect(self, address: str, record: CompatRecord, *, deadline: float) -> KvSender:
        """Connects and shakes hands. address: of a ticket.

        Raises IncompatiblePeer (pdwire) with the verdict, or TransferFailed.
        """
        ...


class Transport(Connects, Protocol):
    name: str

    def listen(self, host: str, port: int, record: CompatRecord, sink: KvSink) -> KvListener:
        """Binds and accepts in the background. host: one address of this host; port 0: any free one.

        Raises OSError when the port is taken, ValueError for an address that means every interface.
        """
        ...
