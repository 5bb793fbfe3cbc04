"""What breaks is noticed, named, and survived: a byte, a prefill process, a decode process, a client."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.engine.cluster import MODEL_NAME, Cluster, Stream
from tests.engine.pace import share_of_a_core
from tests.engine.reference_tokens import MAX_TOKENS, ReferenceTokens, differs
from tests.engine.tiny import make_model

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

# A reader notices a pause of a second.
LONGEST_GAP_S = 1.0


def wait_for(what: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.02)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code > 0
    except httpx.HTTPError:
        return False


def in_background(work: Callable[[], object]) -> Future[object]:
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work)
    finally:
        pool.shutdown(wait=False)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(scope="module")
def breakable(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(model_directory, tmp_path_factory.mktemp("breakable"), router_settings={"drain_s": 20.0}) as cluster:
        yield cluster


@pytest.fixture
def standing(breakable: Cluster) -> Cluster:
    """All three processes, whatever the test before did to them."""
    breakable.start()
    return breakable


def test_a_byte_altered_in_flight_is_refused_by_name_and_the_answer_is_still_right(
    model_directory: Path, directory: Path, reference_tokens: ReferenceTokens
) -> None:
    expected = reference_tokens.named("length 257")
    with Cluster(model_directory, directory) as cluster:
        for node in (*cluster.prefill, *cluster.decode):
            node.module = "tests.engine.over_fake"
        cluster.decode[0].arguments = ("--corrupt", "8")
        cluster.start()
        answer = cluster.complete(expected.prompt, MAX_TOKENS)
        assert differs(expected, answer["choices"][0]["token_ids"]) is None
        assert answer["pdctl"]["path"] == "recompute"
        (failure,) = cluster.router.events("attempt_failed")
        assert failure["blame"] == "prefill"
        for words in ("checksum", "request ", "layer ", "tokens 0..255"):
            assert words in failure["reason"], failure
        assert cluster.complete(expected.prompt, 4)["pdctl"]["path"] == "split", (
            "the connection was given up for one frame"
        )


def test_decode_that_stays_away_is_a_clear_error_at_the_deadline(
    standing: Cluster, reference_tokens: ReferenceTokens
) -> None:
    prompt = reference_tokens.named("length 100").prompt
    (decode,) = standing.decode
    running = Stream()
    streaming = in_background(lambda: running.read(standing, prompt, 500, ignore_eos=True, timeout_s=3.0))
    wait_for(lambda: len(running.times) > 2)
    decode.kill()
    killed = time.monotonic()
    streaming.result(timeout=30)
    assert time.monotonic() - killed < 6.0
    assert running.error is not None and running.error["code"] == "deadline"
    assert running.error["type"] == "server_error"
    with pytest.raises(httpx.HTTPStatusError) as refused:
        standing.complete(prompt, 4, timeout_s=1.0)
    assert refused.value.response.status_code == 504
    assert decode.url in refused.value.response.json()["error"]["message"]


def test_without_any_prefill_the_answer_is_right_and_says_how_it_came(
    standing: Cluster, reference_tokens: ReferenceTokens
) -> None:
    expected = reference_tokens.named("length 63")
    before = standing.router.metric("pdserve_recomputed_total")
    standing.prefill[0].kill()
    answer = standing.complete(expected.prompt, MAX_TOKENS)
    assert differs(expected, answer["choices"][0]["token_ids"]) is None
    assert answer["pdctl"]["path"] == "recompute" and answer["pdctl"]["kv_gb_per_s"] is None
    assert standing.router.metric("pdserve_recomputed_total") == before + 1.0


def test_a_client_that_leaves_frees_blocks_on_decode(cluster: Cluster, reference_tokens: ReferenceTokens) -> None:
    (decode,) = cluster.decode
    blocks = decode.metric("pdserve_kv_blocks")
    body = {"model": MODEL_NAME, "prompt": reference_tokens.named("length 63").prompt, "max_tokens": 2000}
    body |= {"stream": True, "ignore_eos": True}
    for stream in (True, False):
        url = f"{cluster.router.url}/v1/completions"
        if stream:
            with httpx.stream("POST", url, json=body, timeout=60, trust_env=False) as response:
                next(response.iter_lines())
                assert decode.metric("pdserve_kv_blocks_free") < blocks
        else:
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(url, json=body | {"stream": False}, timeout=1.0, trust_env=False)
        wait_for(lambda: decode.metric("pdserve_kv_blocks_free") == blocks)
    wait_for(lambda: cluster.router.metric("pdserve_requests_running") == 0.0)


def test_processes_end_with_code_0_when_told_to_and_finish_what_runs(
    standing: Cluster, reference_tokens: ReferenceTokens
) -> None:
    running = Stream()
    prompt = reference_tokens.named("length 15").prompt
    streaming = in_background(lambda: running.read(standing, prompt, 40, ignore_eos=True))
    wait_for(lambda: len(running.times) > 2)
    ended = threading.Event()
    stopping = in_background(lambda: (standing.router.stop(), ended.set()))
    wait_for(lambda: httpx.get(f"{standing.router.url}/health", trust_env=False).json()["status"] == "draining")
    assert not ended.is_set()
    streaming.result(timeout=60)
    assert running.error is None and len(running.token_ids) == 40
    stopping.result(timeout=60)
    assert [node.stop() for node in standing.nodes if node is not standing.router] == [0, 0]
    assert standing.router.process is not None and standing.router.process.returncode == 0


def test_a_port_in_use_ends_the_process_with_a_clear_line(model_directory: Path, directory: Path) -> None:
    cluster = Cluster(model_directory, directory)
    for node in cluster.nodes:
        port = node.config["listen"]["port"]
        with socket.create_server(("127.0.0.1", port)):
            node.start()
            assert node.process is not None and node.process.wait(timeout=60) == 1
        (failure,) = node.events("start_failed")
        assert "Address already in use" in failure["reason"] and str(port) in failure["reason"]


def test_with_two_of_each_the_survivor_of_a_pool_takes_over(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = make_model(tmp_path_factory.mktemp("tiny"))
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    # Long enough that a stream still runs when its decode is killed.
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 2048}), encoding="utf-8")
    prompt, length = list(range(2, 100)), 1000
    with Cluster(model, directory, prefills=2, decodes=2) as cluster:
        cluster.start()
        alone = cluster.tokens(prompt, length, ignore_eos=True)
        cluster.prefill[0].kill()
        for _ in range(4):
            answer = cluster.complete(prompt, 100, ignore_eos=True)
            assert answer["choices"][0]["token_ids"] == alone[:100]
            assert (answer["pdctl"]["path"], answer["pdctl"]["prefill"]) == ("split", "p1")
        # One stream on each decode: the first moves, and the other does not notice.
        streams = [Stream(), Stream()]
        streaming = [
            in_background(lambda one=one: one.read(cluster, prompt, length, ignore_eos=True)) for one in streams
        ]
        wait_for(lambda: all(len(one.times) > 5 for one in streams))
        killed, survivor = cluster.decode
        assert survivor.process is not None
        with share_of_a_core(survivor.process.pid) as share:
            killed.kill()
            for each in streaming:
                each.result(timeout=60)
        for one in streams:
            assert one.token_ids == alone and one.error is None
            assert one.figures is not None and one.figures["decode"] == survivor.name
            assert one.longest_gap < LONGEST_GAP_S / share()
        assert sorted(one.figures["resumed"] for one in streams if one.figures) == [0, 1]


def test_a_process_that_is_told_to_stop_while_it_loads_ends_with_code_0(model_directory: Path, directory: Path) -> None:
    cluster = Cluster(model_directory, directory)
    node = cluster.decode[0]
    node.start()
    try:
        wait_for(lambda: answers(f"{node.url}/health"))
        assert node.stop() == 0
    finally:
        node.end()


def test_a_model_that_cannot_be_split_ends_the_process_and_is_named(directory: Path) -> None:
    model = make_model(directory / "model")
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps(config | {"sliding_window": 64}), encoding="utf-8")
    node = Cluster(model, directory).prefill[0]
    node.start()
    assert node.process is not None and node.process.wait(timeout=60) == 1
    (failure,) = node.events("load_failed")
    assert "sliding-window" in failure["reason"] and "sliding_window" in failure["reason"]


def test_a_misspelt_key_in_a_config_is_named(model_directory: Path, directory: Path) -> None:
    node = Cluster(model_directory, directory, prefill_settings={"chunk_token": 5}).prefill[0]
    node.start()
    assert node.process is not None and node.process.wait(timeout=60) == 2
    assert [event["key"] for event in node.events("bad_config")] == ["chunk_token"]
