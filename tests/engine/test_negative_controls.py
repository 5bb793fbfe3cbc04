"""What the equality test can see: each of these faults must change at least one prompt's tokens.

Moving K and V together would be no control, because attention does not see the order of what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.engine.pair import Pair
from tests.engine.reference_tokens import MAX_TOKENS, ReferenceTokens, differs

from pdserve.attention import AttentionContext
from pdserve.config import ModelConfig
from pdserve.kv_cache import KvCache
from pdserve.kv_receiver import KvReceiver
from pdserve.model import LoadedModel, load_model
from pdwire import FirstToken, LayerFrame

pytestmark = pytest.mark.engine

CHUNK = 32
NAMES = ("length 63", "length 100", "length 17")


@pytest.fixture(scope="module")
def model(model_directory: Path) -> LoadedModel:
    return load_model(ModelConfig(path=model_directory, name="test", threads=1))


class Faulty:
    """A sink that lets everything through to the receiver; the controls change one thing each."""

    def __init__(self, receiver: KvReceiver, cache: KvCache) -> None:
        self.receiver = receiver
        self.cache = cache

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        return self.receiver.place(frame)

    def landed(self, frame: LayerFrame) -> None:
        self.receiver.landed(frame)

    def first_token(self, done: FirstToken) -> None:
        self.spoil(done)
        self.receiver.first_token(done)

    def aborted(self, request: bytes, reason: str) -> None:
        self.receiver.aborted(request, reason)

    def spoil(self, done: FirstToken) -> None:
        """All KV has landed; decode has not begun."""

    def slots(self, done: FirstToken) -> slice:
        """The request's slots, which an empty cache gives as one run."""
        (span,) = self.receiver._reservations[done.request].table.spans(0, done.prompt_tokens)
        return slice(span[0], span[0] + span[1])


class LastBlockZeroed(Faulty):
    def spoil(self, done: FirstToken) -> None:
        slots = self.slots(done)
        begin = slots.start + (done.prompt_tokens - 1) // self.cache.block_tokens * self.cache.block_tokens
        self.cache.tensor[:, :, begin : slots.stop] = 0


class KAndVExchanged(Faulty):
    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        key, value = super().place(frame)
        return [value, key]


class KOneTokenLate(Faulty):
    def spoil(self, done: FirstToken) -> None:
        keys = self.cache.tensor[:, 0, self.slots(done)]
        keys[:, 1:] = keys[:, :-1].clone()


class ChunkPositionsRestarted(LoadedModel):
    def forward(
        self, token_ids: Sequence[int], positions: Sequence[int], context: AttentionContext, rows: Sequence[int]
    ) -> torch.Tensor:  # noqa: F821
        return super().forward(token_ids, range(len(positions)), context, rows)


class PositionsOffByOne(LoadedModel):
    def forward(
        self, token_ids: Sequence[int], positions: Sequence[int], context: AttentionContext, rows: Sequence[int]
    ) -> torch.Tensor:  # noqa: F821
        return super().forward(token_ids, [position + 1 for position in positions], context, rows)


def parted(pair: Pair, reference: ReferenceTokens) -> list[str]:
    with pair:
        answers = {name: pair.generate(reference.named(name).prompt, MAX_TOKENS) for name in NAMES}
    return [text for name in NAMES if (text := differs(reference.named(name), answers[name]))]


CONTROLS: dict[str, Callable[[LoadedModel], Pair]] = {
    "last block zeroed": lambda model: Pair(model, sink=LastBlockZeroed, chunk_tokens=CHUNK),
    "K and V exchanged": lambda model: Pair(model, sink=KAndVExchanged, chunk_tokens=CHUNK),
    "K one token late": lambda model: Pair(model, sink=KOneTokenLate, chunk_tokens=CHUNK),
    "chunk positions restarted at 0": lambda model: Pair(
        ChunkPositionsRestarted(**vars(model)), decode_model=model, chunk_tokens=CHUNK
    ),
    "decode positions off by one": lambda model: Pair(
        model, decode_model=PositionsOffByOne(**vars(model)), chunk_tokens=CHUNK
    ),
}


def test_without_a_fault_no_prompt_changes(model: LoadedModel, reference_tokens: ReferenceTokens) -> None:
    assert not parted(Pair(model, sink=Faulty, chunk_tokens=CHUNK), reference_tokens)


@pytest.mark.parametrize("control", CONTROLS)
def test_a_fault_changes_at_least_one_prompt(
    control: str, model: LoadedModel, reference_tokens: ReferenceTokens
) -> None:
    changed = parted(CONTROLS[control](model), reference_tokens)
    assert changed
    print(control, changed)
