"""What a request took is given back with its end, not when Python's collector of circles happens to run."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest
import torch
from tests.engine.pair import Pair, Request
from tests.engine.tiny import make_model

from pdserve.config import ModelConfig
from pdserve.model import LoadedModel, load_model

pytestmark = pytest.mark.engine

PROMPT = list(range(2, 90))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(ModelConfig(path=make_model(tmp_path_factory.mktemp("tiny")), name="tiny", threads=1))


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def prompt_buffers(model: LoadedModel, tokens: int) -> int:
    """How many buffers of a prompt's KV are alive."""
    architecture = model.architecture
    shape = (architecture.layers, 2, tokens, architecture.kv_heads, architecture.head_dim)
    return sum(1 for thing in gc.get_objects() if type(thing) is torch.Tensor and tuple(thing.shape) == shape)


def end(pair: Pair, request: Request, how: str) -> None:
    if how == "prefill is cancelled":
        assert request.job is not None
        request.job.cancelled.set()
        request.job.result.exception(timeout=30)
        pair.decode.abort(request.id, "cancelled")
    elif how == "decode aborts":
        pair.listener.abort(request.id, "the client left")
        pair.decode.abort(request.id, "the client left")
        assert request.job is not None
        request.job.result.exception(timeout=30)
    else:
        request.tokens()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("how", ["it finishes", "prefill is cancelled", "decode aborts"])
def test_the_kv_of_a_request_that_is_over_is_gone_without_the_collector(model: LoadedModel, how: str) -> None:
    with Pair(model, chunk_tokens=8) as pair:
        for _ in range(3):
            end(pair, pair.start(PROMPT, 2), how)
        pair.wait_until_idle()
        patience = time.monotonic() + 20
        while prompt_buffers(model, len(PROMPT)) and time.monotonic() < patience:
            time.sleep(0.05)
        assert prompt_buffers(model, len(PROMPT)) == 0
