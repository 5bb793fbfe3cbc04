"""Split into separate processes or not, the model says the same."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.engine.cluster import Cluster
from tests.engine.reference_tokens import MAX_TOKENS, ReferenceTokens, compute_reference, differs

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def test_the_kept_reference_is_what_one_process_says_today(
    model_directory: Path, reference_tokens: ReferenceTokens
) -> None:
    today = compute_reference(model_directory)
    assert today.model_digest == reference_tokens.model_digest
    assert [one.prompt for one in today.prompts] == [one.prompt for one in reference_tokens.prompts]
    parted = [
        differs(kept, new.run.token_ids) for kept, new in zip(reference_tokens.prompts, today.prompts, strict=True)
    ]
    assert not any(parted), parted


def test_split_processes_give_the_tokens_of_one_process(cluster: Cluster, reference_tokens: ReferenceTokens) -> None:
    assert len(reference_tokens.prompts) >= 20
    parted = []
    for one in reference_tokens.prompts:
        answer = cluster.complete(one.prompt, MAX_TOKENS)
        figures = answer["pdctl"]
        assert figures["path"] == "split", figures
        assert figures["kv_bytes"] == len(one.prompt) * 30 * 2 * 3 * 64 * 4, figures
        parted.append(differs(one, answer["choices"][0]["token_ids"]))
    assert not any(parted), [text for text in parted if text]


def test_prefill_that_writes_into_decodes_cache_gives_them_too(
    model_directory: Path, reference_tokens: ReferenceTokens, tmp_path: Path
) -> None:
    with Cluster(model_directory, tmp_path, kv_transport="shm") as cluster:
        cluster.start()
        for name in ("length 1", "length 63", "length 513"):
            one = reference_tokens.named(name)
            answer = cluster.complete(one.prompt, MAX_TOKENS)
            assert answer["pdctl"]["path"] == "split", cluster.decode[0].log()
            assert differs(one, answer["choices"][0]["token_ids"]) is None


def test_eight_requests_at_once_get_what_each_gets_alone(cluster: Cluster, reference_tokens: ReferenceTokens) -> None:
    chosen = [one for one in reference_tokens.prompts if len(one.prompt) <= 600][-8:]
    for _ in range(int(os.environ.get("PDCTL_TEST_ROUNDS", "1"))):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda one: cluster.tokens(one.prompt, MAX_TOKENS), chosen))
        parted = [differs(one, got) for one, got in zip(chosen, answers, strict=True)]
        assert not any(parted), parted


def test_a_seed_gives_the_same_tokens_alone_and_among_others(
    cluster: Cluster, reference_tokens: ReferenceTokens
) -> None:
    prompt = reference_tokens.named("length 63").prompt
    alone = cluster.tokens(prompt, 16, temperature=0.9, top_p=0.95, seed=11)
    with ThreadPoolExecutor(6) as pool:
        seeds = (11, 12, 11, 13, 14, 11)
        among = list(pool.map(lambda seed: cluster.tokens(prompt, 16, temperature=0.9, top_p=0.95, seed=seed), seeds))
    assert [among[at] for at in (0, 2, 5)] == [alone] * 3
    assert among[1] != alone
