"""KV of one dtype feeds a decode engine of another: exactly where it widens, rounded where both sides gave leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.pair import Pair
from tests.engine.tiny import make_model

from pdserve.config import DTypeName, ModelConfig
from pdserve.model import LoadedModel, load_model
from pdwire import Conversion, IncompatiblePeer

pytestmark = pytest.mark.engine

PROMPT = list(range(2, 60))


def load(directory: Path, dtype: DTypeName) -> LoadedModel:
    return load_model(ModelConfig(path=directory, name="tiny", threads=1, dtype=dtype))


@pytest.mark.parametrize(
    ("have", "want", "can"),
    [("bfloat16", "float32", Conversion.DTYPE), ("float32", "bfloat16", Conversion.ROUNDING)],
)
def test_an_answer_is_the_same_by_every_transport(
    have: DTypeName, want: DTypeName, can: Conversion, tmp_path: Path
) -> None:
    directory = make_model(tmp_path, "llama")
    prefill, decode = load(directory, have), load(directory, want)
    answers = []
    for transport in ("tcp", "shm"):
        with Pair(prefill, decode_model=decode, transport=transport, can={can}, chunk_tokens=32) as pair:
            answers.append(pair.generate(PROMPT, 12))
            pair.wait_until_idle()
    assert answers[0] == answers[1]
    assert len(answers[0]) == 12
    with Pair(prefill, chunk_tokens=32) as alike:
        assert alike.generate(PROMPT, 1) == answers[0][:1], "prefill's own first token"


def test_rounding_that_nobody_allowed_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    directory = make_model(tmp_path, "llama")
    with Pair(load(directory, "float32"), decode_model=load(directory, "bfloat16"), can={Conversion.DTYPE}) as pair:
        job = pair.start(PROMPT, 4).job
        assert job is not None
        with pytest.raises(IncompatiblePeer, match="kv_rounding: true") as refused:
            job.result.result(timeout=60)
    assert "model.dtype: bfloat16" in str(refused.value)
