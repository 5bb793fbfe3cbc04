"""What holds for every pair, however its sides are configured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pdchecks.pair.command import DescriptionError
from pdchecks.pair.describe import ModelFiles, describe
from pdchecks.pair.document import document
from pdchecks.pair.fields import PairOutcome
from pdchecks.pair.gpus import gpu_table
from pdchecks.pair.verdict import PairVerdict, pair_verdict
from pdchecks.unknown import Unknown
from pdwire.kvmodel import ConfigError

DATA = Path(__file__).parents[2] / "data"
CONFIGS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (DATA / "configs").glob("*.json")}
UNREAD = Unknown("not read")
NIXL = '--kv-transfer-config \'{"kv_connector": "NixlConnector"}\''
OPTIONS = st.lists(
    st.sampled_from(
        [
            NIXL,
            "-tp 2",
            "-tp 4",
            "-tp 16",
            "-pp 2",
            "--kv-cache-dtype fp8",
            "--kv-cache-dtype nvfp4",
            "--dtype float16",
            "--block-size 64",
            "--attention-backend FLASHINFER",
            "--attention-backend TRITON_MLA",
            "--disable-hybrid-kv-cache-manager",
            "--num-gpu-blocks-override 1000",
            "--hf-overrides.rope_theta 1234.5",
            "--calculate-kv-scales",
            "--speculative-config.method eagle3",
            "-dcp 2",
            "--load-format dummy",
            "--port 9000",
            "VLLM_KV_CACHE_LAYOUT=NHD",
        ]
    ),
    max_size=4,
    unique=True,
).map(lambda words: " ".join(sorted(words, key=lambda word: word.startswith("-"))))
OF_TORCH = st.sampled_from(["", "--model.dtype float16", "--dtype bfloat16 --kv_rounding true", "--block-tokens 32"])
VLLMS = ["vllm", "vllm 0.9.1", "vllm 0.11.0", "vllm 0.21.0", "vllm 0.33.0", "vllm 1.2.0"]
ENGINES = st.tuples(st.sampled_from(VLLMS), OPTIONS) | st.tuples(st.just("torch"), OF_TORCH)
SIDES = st.fixed_dictionaries(
    {"config": st.sampled_from(sorted(CONFIGS)), "engine": ENGINES},
    optional={
        "gpu": st.sampled_from([gpu.kind for gpu in gpu_table()] + ["h100", "mystery"]),
        "weights": st.sampled_from(["a", "b"]),
        "tokenizer": st.sampled_from(["a", "b"]),
        "model": st.sampled_from(["/m/x", "/n/x"]),
        "isa": st.sampled_from(["vec", "amx"]),
        "host": st.sampled_from(["p0", "d0"]),
    },
).map(lambda side: {**side, "engine": side["engine"][0], "args": side["engine"][1]})


def judge(prefill: dict[str, Any], decode: dict[str, Any]) -> PairVerdict:
    def load(named: str) -> ModelFiles:
        return ModelFiles(CONFIGS[named], UNREAD, UNREAD)

    return pair_verdict(*describe({"prefill": prefill, "decode": decode}, load))


@settings(max_examples=400, deadline=None)
@given(prefill=SIDES, decode=SIDES)
def test_every_pair_gets_a_verdict_with_a_fix_for_all_that_is_fatal(
    prefill: dict[str, Any], decode: dict[str, Any]
) -> None:
    try:
        verdict = judge(prefill, decode)
    except (DescriptionError, ConfigError):
        return
    json.dumps(document(verdict))
    names = [one.field for one in verdict.fields]
    assert len(set(names)) == len(names), "one field has one line"
    for one in verdict.fields:
        assert one.outcome is not PairOutcome.FATAL or (one.reason and one.fix and not one.exact)
        assert one.outcome is not PairOutcome.UNKNOWN or one.reason
        assert one.outcome is not PairOutcome.EQUAL or one.prefill == one.decode


@settings(max_examples=300, deadline=None)
@given(side=SIDES)
def test_a_side_fits_itself_unless_it_could_not_serve_alone(side: dict[str, Any]) -> None:
    try:
        verdict = judge(side, side)
    except (DescriptionError, ConfigError):
        return
    # What is wrong with one side alone, what no contract carries, and what is wrong on both.
    own = {"attention", "prefill", "decode", "kv_scales"}
    assert not [one for one in verdict.fields if one.field == "load-format"], (
        "what both were told alike does not differ"
    )
    assert {one.field.split(".")[0] for one in verdict.fields if one.outcome is PairOutcome.FATAL} <= own


@settings(max_examples=200, deadline=None)
@given(side=SIDES, other=SIDES)
def test_what_differs_is_never_called_equal(side: dict[str, Any], other: dict[str, Any]) -> None:
    try:
        verdict = judge({**side, "weights": "a"}, {**other, "weights": "b"})
    except (DescriptionError, ConfigError):
        return
    (digest,) = [one for one in verdict.fields if one.field == "model_digest"]
    assert digest.outcome is PairOutcome.FATAL
    assert verdict.outcome is PairOutcome.FATAL
