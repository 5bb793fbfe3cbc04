"""`pdctl pair` predicts, from a model directory alone, the record that the running engine announces."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.tiny import FAMILIES, make_model

from pdchecks.pair.describe import describe
from pdchecks.pair.verdict import pair_verdict
from pdchecks.unknown import Unknown
from pdctl.model_files import model_loader
from pdserve.config import ModelConfig
from pdserve.model import load_model
from pdwire import FIELDS

pytestmark = pytest.mark.engine

SETTLED_AT_START = {"protocol", "tp_rank", "transports", "engine_version", "capacity_tokens"}
SHORTENED = {"model_digest", "tokenizer_digest"}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_static_record_is_the_live_one(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = make_model(tmp_path / "model", family)
    model = load_model(ModelConfig(path=directory, name="tiny", threads=1))
    live = model.compat_record(name="prefill", block_tokens=16, capacity_tokens=100, transports=("tcp",))
    side = {"config": str(directory), "engine": "torch", "gpu": "cpu"}
    static = pair_verdict(*describe({"prefill": side, "decode": side}, model_loader(Path(), print))).prefill.fields
    for name in set(FIELDS) - SETTLED_AT_START:
        predicted, announced = static[name], getattr(live, name)
        assert not isinstance(predicted, Unknown), predicted
        if name in SHORTENED:
            assert announced.startswith(str(predicted).removeprefix("sha256:")), name
        else:
            assert predicted == announced, name
