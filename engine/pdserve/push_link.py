"""Prefill's end of the transfers: one thread and one lasting connection per decode peer.

How it is meant to work: the compute thread opens a transfer and hands it frames as layers finish; the link's thread
connects when it must, pushes in order, and settles the transfer's future when the peer has said COMPLETE, or with
TransferFailed. After a failure the rest of that transfer is dropped. A connection that broke, in a transfer or while
nothing was sent, is made anew for the next transfer and never within one: decode has given that one up.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from pdserve.errors import detached
from pdserve.logs import log
from pdserve.transport.base import Connects, KvSender, TransferFailed
from pdwire import AbortCode, CompatRecord, FirstToken, IncompatiblePeer, LayerFrame

# Decode peers of one prefill process. More addresses than this are restarts of the same few peers.
_MAX_LINKS = 64
# Failures after which the connection is as good as before.
_OF_ONE_REQUEST = (AbortCode.CANCELLED, AbortCode.REFUSED, AbortCode.CHECKSUM)


@dataclass(frozen=True, slots=True)
class Sent:
    """link_seconds: spent sending the frames and waiting for COMPLETE; the rest of the time the link had nothing of it."""

    frames: int
    bytes: int
    link_seconds: float


@dataclass
class Transfer:
    """One request's way to decode. done: settled when decode has said COMPLETE. sender: the one connection that carries it."""

    request: bytes
    deadline: float
    done: Future[Sent] = field(default_factory=Future)
    frames: int = 0
    bytes: int = 0
    link_seconds: float = 0.0
    sender: KvSender | None = None

    @property
    def sent(self) -> Sent:
        return Sent(self.frames, self.bytes, self.link_seconds)

    @property
    def failed(self) -> bool:
        return self.done.done() and self.done.exception() is not None


Step: TypeAlias = Callable[[KvSender, Transfer], None]


class PushLink:
    """One decode peer."""

    def __init__(self, address: str, transport: Connects, record: CompatRecord) -> None:
        self._address = address
        self._transport = transport
        self._record = record
        self._sender: KvSender | None = None
        self._steps: queue.SimpleQueue[tuple[Transfer, Step] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"push {address}", daemon=True)
        self._thread.start()

    def open(self, request: bytes, deadline: float) -> Transfer:
        """Connects in the background, so that a peer that is gone is known before the first layer is."""
        transfer = Transfer(request, deadline)
        self._steps.put((transfer, lambda sender, transfer: None))
        return transfer

    def push(self, transfer: Transfer, frame: LayerFrame, body: Sequence[memoryview]) -> None:
        """body must stay as it is until the transfer is done."""

        def step(sender: KvSender, transfer: Transfer) -> None:
            sender.push(frame, body, deadline=transfer.deadline)
            transfer.frames += 1
            transfer.bytes += frame.body_bytes

        self._steps.put((transfer, step))

    def finish(self, transfer: Transfer, first_token: FirstToken) -> None:
        def step(sender: KvSender, transfer: Transfer) -> None:
            sender.finish(first_token, deadline=transfer.deadline)

        self._steps.put((transfer, step))
        self._steps.put((transfer, lambda sender, transfer: transfer.done.set_result(transfer.sent)))

    def abort(self, transfer: Transfer, reason: str) -> None:
        def step(sender: KvSender, transfer: Transfer) -> None:
            sender.abort(transfer.request, reason)
            transfer.done.set_exception(TransferFailed(reason))

        self._steps.put((transfer, step))

    def close(self) -> None:
        """Ends the thread after what is queued; at most a little more than the queued transfers' deadlines."""
        self._steps.put(None)
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while (item := self._steps.get()) is not None:
            self._serve(*item)
            del item  # nor is the KV of a request that is over kept while there is nothing to do
        self._disconnect()

    def _serve(self, transfer: Transfer, step: Step) -> None:
        if transfer.done.done():
            return
        try:
            self._take(step, transfer)
        except (TransferFailed, IncompatiblePeer) as error:
            log("transfer_failed", request=transfer.request.hex(), peer=self._address, reason=str(error))
            if not (isinstance(error, TransferFailed) and error.code in _OF_ONE_REQUEST):
                self._disconnect()
            transfer.done.set_exception(detached(error))
        except Exception as error:  # the thread serves other requests too
            log("transfer_crashed", request=transfer.request.hex(), peer=self._address, reason=repr(error))
            self._disconnect()
            transfer.done.set_exception(TransferFailed(repr(error)))

    def _take(self, step: Step, transfer: Transfer) -> None:
        """On a connection that lay idle, decode may have been restarted since: that costs a new one, not the request."""
        reused = self._sender is not None
        sender = self._sender_of(transfer)
        began = time.monotonic()
        try:
            step(sender, transfer)
        except TransferFailed as error:
            if not reused or transfer.frames or error.code is not AbortCode.INTERNAL:
                raise
            self._disconnect()
            transfer.sender = None
            step(self._sender_of(transfer), transfer)
        transfer.link_seconds += time.monotonic() - began

    def _sender_of(self, transfer: Transfer) -> KvSender:
        if transfer.sender is None:
            if self._sender is not None and not self._sender.alive:
                log("link_lost", peer=self._address)
                self._disconnect()
            if self._sender is None:
                self._sender = self._transport.connect(self._address, self._record, deadline=transfer.deadline)
            transfer.sender = self._sender
        return transfer.sender

    def _disconnect(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()


class PushLinks:
    """All decode peers, by address. Used by one thread."""

    def __init__(self, transport: Connects, record: CompatRecord) -> None:
        self._transport = transport
        self._record = record
        self._links: dict[str, PushLink] = {}

    def to(self, address: str) -> PushLink:
        link = self._links.pop(address, None) or PushLink(address, self._transport, self._record)
        self._links[address] = link  # last used goes last
        if len(self._links) > _MAX_LINKS:
            oldest = next(iter(self._links))
            self._links.pop(oldest).close()
        return link

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()
