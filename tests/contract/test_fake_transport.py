"""The fake transport does to each frame what its script says, and both engines notice it as the contract promises."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.contract.kv_sink import Sink, require_all_tokens, soon
from tests.kv_examples import DECODE, PREFILL, layer_frame, request_id

from pdserve.transport.base import KvSender, TransferFailed
from pdserve.transport.fake import FakeTransport
from pdserve.transport.faults import Corrupt, Cut, Delay, Drop, Duplicate, Fault, Passing, Reorder, Rule, Script, Stall
from pdwire import AbortCode, FirstToken, Kind, Limits, Role

LAYER, FIRST_TOKEN, COMPLETE, HELLO = Kind.LAYER, Kind.FIRST_TOKEN, Kind.COMPLETE, Kind.HELLO
QUICK = Limits(hello_s=1.0, frame_s=1.0, idle_s=1.5, request_s=1.0, complete_s=1.0, abort_s=1.0)


class Link:
    """A sink that wants every token, and a sender, with a script between them."""

    def __init__(self) -> None:
        self.script = Script()
        self.sink = Sink()
        self.sink.finishing = require_all_tokens(self.sink)
        self.transport = FakeTransport(QUICK, script=self.script)
        self.listener = self.transport.listen("127.0.0.1", 0, DECODE, self.sink)
        self.senders: list[KvSender] = []

    def connect(self) -> KvSender:
        self.senders.append(self.transport.connect(self.listener.address, PREFILL, deadline=soon()))
        return self.senders[-1]

    def transfer(self, sender: KvSender, number: int) -> None:
        """Two frames a layer and the first token."""
        request = request_id(number)
        for first in (0, 16):
            for layer in range(PREFILL.layers):
                frame = layer_frame(request, layer, first)
                sender.push(frame, [memoryview(bytes([layer + 1]) * frame.body_bytes)], deadline=soon())
        sender.finish(FirstToken(request=request, token=7, prompt_tokens=32), deadline=soon())

    def assert_whole(self, number: int) -> None:
        for (request, layer, _), body in self.sink.bodies.items():
            assert request != request_id(number) or body == bytes([layer + 1]) * len(body)
        assert self.sink.done[request_id(number)].token == 7 and not self.sink.gone[request_id(number)]

    def close(self) -> None:
        for sender in self.senders:
            sender.close()
        self.listener.close()


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link()
    yield link
    link.close()


@pytest.mark.parametrize(
    "rule",
    [
        Rule(Delay(0.1), kind=LAYER, times=3),
        Rule(Reorder(), kind=LAYER, said_by=Role.PREFILL, skip=1, times=3),
        Rule(Duplicate(), kind=LAYER),
        Rule(Reorder(), kind=COMPLETE),
        Rule(Delay(0.2), kind=COMPLETE),
    ],
    ids=lambda rule: f"{type(rule.fault).__name__}-{rule.kind.name}",
)
def test_what_only_comes_late_twice_or_in_another_order_costs_nothing(link: Link, rule: Rule) -> None:
    link.script.add(rule)
    sender = link.connect()
    link.transfer(sender, 1)
    assert link.script.done
    link.assert_whole(1)
    link.script.behave()
    link.transfer(sender, 2)
    link.assert_whole(2)


@pytest.mark.parametrize("kind", [FIRST_TOKEN, COMPLETE], ids=lambda kind: kind.name)
def test_a_control_frame_that_comes_twice_costs_at_most_the_connection(link: Link, kind: Kind) -> None:
    """Only LAYER may come again; on a connection that keeps its order the others cannot, unless somebody forges."""
    link.script.add(Rule(Duplicate(), kind=kind, times=1))
    sender = link.connect()
    link.transfer(sender, 1)
    link.assert_whole(1)
    deadline = soon(5)
    while sender.alive:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    link.transfer(link.connect(), 2)
    link.assert_whole(2)


def test_a_duplicate_lands_twice_and_counts_once(link: Link) -> None:
    link.script.add(Rule(Duplicate(), kind=LAYER, times=1))
    link.transfer(link.connect(), 1)
    assert sorted(link.sink.landings.values()) == [1] * 7 + [2]


@pytest.mark.parametrize(
    ("rule", "code", "words"),
    [
        (Rule(Drop(), kind=LAYER, times=1), AbortCode.REFUSED, r"layer 0 lacks tokens 0\.\.15"),
        (Rule(Drop(), kind=FIRST_TOKEN, times=1), AbortCode.DEADLINE, "complete_s|request_s"),
        (Rule(Drop(), kind=COMPLETE, times=1), AbortCode.DEADLINE, "complete_s"),
        (Rule(Reorder(), kind=LAYER, skip=7, times=1), AbortCode.REFUSED, r"layer 3 lacks tokens 16\.\.31"),
        (Rule(Corrupt(), kind=LAYER, times=1), AbortCode.CHECKSUM, "checksum of request .* layer 0 tokens 0..15"),
    ],
    ids=["drop-LAYER", "drop-FIRST_TOKEN", "drop-COMPLETE", "reorder-last-LAYER", "corrupt-LAYER"],
)
def test_what_is_lost_or_altered_costs_its_request_and_says_so(
    link: Link, rule: Rule, code: AbortCode, words: str
) -> None:
    link.script.add(rule)
    sender = link.connect()
    with pytest.raises(TransferFailed, match=words) as failure:
        link.transfer(sender, 1)
    assert failure.value.code is code
    if rule.kind is not COMPLETE:
        link.sink.wait(lambda: len(link.sink.gone[request_id(1)]) == 1)
    link.transfer(sender, 2)
    link.assert_whole(2)


@pytest.mark.parametrize(
    "fault", [Cut(), Cut(0), Cut(64), Cut(5000), Corrupt(8 * 8), Corrupt(3)], ids=lambda fault: repr(fault)
)
def test_what_breaks_the_connection_is_told_to_both_sides_and_the_next_one_works(link: Link, fault: Fault) -> None:
    link.script.add(Rule(fault, kind=LAYER, skip=4, times=1))
    with pytest.raises(TransferFailed):
        link.transfer(link.connect(), 1)
    link.sink.wait(lambda: len(link.sink.gone[request_id(1)]) == 1)
    link.transfer(link.connect(), 2)
    link.assert_whole(2)


def test_a_stalled_link_ends_by_deadline_on_both_sides(link: Link) -> None:
    link.script.add(Rule(Stall(), kind=LAYER, skip=2, times=1))
    begun = time.monotonic()
    with pytest.raises(TransferFailed):
        link.transfer(link.connect(), 1)
    link.sink.wait(lambda: len(link.sink.gone[request_id(1)]) == 1)
    assert time.monotonic() - begun < 6


@pytest.mark.parametrize("fault", [Drop(), Duplicate(), Corrupt(), Cut(), Stall()], ids=lambda fault: repr(fault))
@pytest.mark.parametrize("said_by", list(Role))
def test_a_handshake_that_goes_wrong_ends_in_time(link: Link, fault: Fault, said_by: Role) -> None:
    link.script.add(Rule(fault, said_by=said_by, kind=HELLO, times=1))
    begun = time.monotonic()
    with pytest.raises(TransferFailed):
        link.transfer(link.connect(), 1)
    assert time.monotonic() - begun < 6
    link.transfer(link.connect(), 2)
    link.assert_whole(2)


def test_the_same_seed_gives_the_same_faults() -> None:
    rules = [Rule(Corrupt(), chance=0.3), Rule(Cut(), chance=0.3), Rule(Drop(), kind=LAYER, skip=3, chance=0.5)]
    frames = [Passing(Role.PREFILL, LAYER, request_id(number), number, 0, 4160) for number in range(200)]
    first, again, other = (
        [Script([Rule(rule.fault, kind=rule.kind, skip=rule.skip, chance=rule.chance) for rule in rules], seed=seed)]
        for seed in (1, 1, 2)
    )
    done = [[script.judge(frame) for frame in frames] for (script,) in (first, again, other)]
    assert done[0] == done[1] != done[2]
    corrupted = [fault.bit for fault in done[0] if isinstance(fault, Corrupt)]
    assert all(bit is not None and 8 * 64 <= bit < 8 * 4160 for bit in corrupted) and len(set(corrupted)) > 20
