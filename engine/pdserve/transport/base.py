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
different requests. It must not block beyond a lock: a slow sink stalls its connection. A transport never calls the
sink for bytes that have not verified, apart from `place`, whose views are scratch until `landed`.
"""

from collections.abc import Sequence
from typing import Protocol

from pdwire import CompatRecord, FirstToken, LayerFrame


class KvRefused(Exception):
    """The sink's no: unknown request, expired lease, a shape or token range that does not fit. Goes back as ABORT."""


class TransferFailed(Exception):
    """The sender's end of it: the peer refused, broke off, or did not answer inside the deadline."""


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


class KvListener(Protocol):
    """A receiving end that is up."""

    @property
    def address(self) -> str:
        """What a sender connects to; it travels in tickets. Shape: `tcp://127.0.0.1:7101`."""
        ...

    def close(self) -> None: ...


class KvSender(Protocol):
    """One connection from a prefill engine to one decode engine, used for many requests, by many threads."""

    @property
    def peer(self) -> CompatRecord: ...

    def push(
        self,
        frame: LayerFrame,
        body: Sequence[memoryview],
        *,
        deadline: float,
    ) -> None:
        """Sends one frame. body: byte views, together exactly the frame's body. They may be reused on return.

        deadline: `time.monotonic()` seconds. Raises TransferFailed; the request is then aborted at the peer.
        """
        ...

    def finish(self, done: FirstToken, *, deadline: float) -> None:
        """Sends the first token and returns when the peer has said COMPLETE. Raises TransferFailed."""
        ...

    def abort(self, request: bytes, reason: str) -> None:
        """Tells the peer to forget the request. Never raises."""
        ...

    def close(self) -> None: ...


class Transport(Protocol):
    name: str

    def listen(self, host: str, port: int, record: CompatRecord, sink: KvSink) -> KvListener:
        """Binds and accepts in the background. Raises OSError when the port is taken."""
        ...

    def connect(self, address: str, record: CompatRecord, *, deadline: float) -> KvSender:
        """Connects and shakes hands. Raises IncompatiblePeer (pdwire) with the verdict, or TransferFailed."""
        ...
