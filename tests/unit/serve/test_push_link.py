"""Prefill's lasting connection to a decode peer outlives that peer's restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.contract.kv_sink import Sink, soon
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.push_link import PushLink, Transfer
from pdserve.transport.base import KvListener, TransferFailed
from pdserve.transport.tcp import TcpTransport
from pdwire import FirstToken


@pytest.fixture
def listener() -> Iterator[KvListener]:
    listener = TcpTransport().listen("127.0.0.1", 0, DECODE, Sink())
    yield listener
    listener.close()


@pytest.fixture
def link(listener: KvListener) -> Iterator[PushLink]:
    link = PushLink(listener.address, TcpTransport(), PREFILL)
    yield link
    link.close()


def restarted(listener: KvListener) -> KvListener:
    """The peer ends and comes back at its address."""
    listener.close()
    port = int(listener.address.rpartition(":")[2])
    return TcpTransport().listen("127.0.0.1", port, DECODE, Sink())


def begin(link: PushLink, number: int) -> Transfer:
    transfer, frame = link.open(request_id(number), soon()), layer_frame(request_id(number))
    link.push(transfer, frame, [memoryview(bytes(frame.body_bytes))])
    return transfer


def transfer(link: PushLink, number: int) -> Transfer:
    begun = begin(link, number)
    link.finish(begun, FirstToken(request=request_id(number), token=1, prompt_tokens=16))
    return begun


def until_noticed(begun: Transfer) -> None:
    """The link's own thread reads the peer's goodbye."""
    while begun.sender is None or begun.sender.alive:
        assert time.monotonic() < begun.deadline
        time.sleep(0.01)


def test_a_peer_that_restarted_between_two_requests_costs_neither(link: PushLink, listener: KvListener) -> None:
    first = transfer(link, 1)
    first.done.result(10)
    again = restarted(listener)
    until_noticed(first)
    transfer(link, 2).done.result(10)
    again.close()


def test_a_transfer_is_never_continued_on_another_connection(link: PushLink, listener: KvListener) -> None:
    begun = begin(link, 1)
    while begun.frames == 0:
        time.sleep(0.01)
    again = restarted(listener)
    link.finish(begun, FirstToken(request=request_id(1), token=1, prompt_tokens=16))
    with pytest.raises(TransferFailed, match=r"closed by the peer|reset"):
        begun.done.result(10)
    transfer(link, 2).done.result(10)
    again.close()
