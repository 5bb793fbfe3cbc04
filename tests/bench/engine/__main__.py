"""Measures the served engine against transformers' own `generate` in one process, in turns, in the same run.

Ours is what a client sees: prefill, decode and router as three processes on loopback, each engine with one thread, asked
over HTTP with streaming. Theirs is one process with one thread and no server. Each round measures both, one after the
other, and gives one ratio of each figure; the median over the rounds is printed, so that a machine that other work slows
down slows both. A ratio above 1 means that ours is faster.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path
from tests.engine.cluster import Cluster, Stream
from tests.engine.prompts import story

from pdserve.embedded import DEFAULT
from pdserve.text.tokenizer import Tokenizer

PROMPT_TOKENS = 1000
STREAM_PROMPT_TOKENS = 64
STREAMS = 8


@dataclass(frozen=True)
class Figures:
    """ttft_s, prefill_s: of the long prompt; of theirs the two are one. decode_1, decode_n: tokens a second, together."""

    ttft_s: float
    prefill_s: float
    decode_1: float
    decode_n: float
    step_n_s: float | None = None

    def against(self, other: Figures) -> list[float]:
        """How many times as fast as the other."""
        return [
            other.ttft_s / self.ttft_s,
            other.prefill_s / self.prefill_s,
            self.decode_1 / other.decode_1,
            self.decode_n / other.decode_n,
        ]


class Ours:
    def __init__(self, cluster: Cluster, prompt: list[int], tokens: int) -> None:
        self._cluster = cluster
        self._prompt = prompt
        self._tokens = tokens

    def measure(self) -> Figures:
        first = self._cluster.complete(self._prompt, 1)["pdctl"]
        decode_1, _ = self._decode(1)
        decode_n, step_s = self._decode(STREAMS)
        return Figures(first["ttft_seconds"], first["prefill_seconds"], decode_1, decode_n, step_s)

    def _decode(self, streams: int) -> tuple[float, float]:
        """Tokens a second while all streams run, and the mean of decode's own step."""
        (decode,) = self._cluster.decode
        before = [decode.metric(f"pdserve_step_seconds_{part}") for part in ("sum", "count")]
        prompts = [self._prompt[number : number + STREAM_PROMPT_TOKENS] for number in range(streams)]
        with ThreadPoolExecutor(streams) as pool:
            done = list(
                pool.map(lambda prompt: Stream().read(self._cluster, prompt, self._tokens, ignore_eos=True), prompts)
            )
        after = [decode.metric(f"pdserve_step_seconds_{part}") for part in ("sum", "count")]
        begin, end = max(each.times[0] for each in done), min(each.times[-1] for each in done)
        made = sum(begin < at <= end for each in done for at in each.times)
        return made / (end - begin), (after[0] - before[0]) / (after[1] - before[1])


class Theirs:
    def __init__(self, model: Path, prompt: list[int], tokens: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()
        torch.set_num_threads(1)
        self._torch = torch
        self._network: Any = AutoModelForCausalLM.from_pretrained(
            str(model), dtype=torch.float32, local_files_only=True, trust_remote_code=False
        ).eval()
        self._prompt = prompt
        self._tokens = tokens

    def measure(self) -> Figures:
        ttft_s = self._seconds([self._prompt], 1)
        rates = []
        for streams in (1, STREAMS):
            batch = [self._prompt[number : number + STREAM_PROMPT_TOKENS] for number in range(streams)]
            begin_s, whole_s = self._seconds(batch, 1), self._seconds(batch, self._tokens)
            rates.append(streams * (self._tokens - 1) / (whole_s - begin_s))
        return Figures(ttft_s, ttft_s, *rates)

    def _seconds(self, batch: list[list[int]], tokens: int) -> float:
        ids = self._torch.tensor(batch)
        began = time.monotonic()
        made = self._network.generate(
            ids,
            attention_mask=self._torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            pad_token_id=0,
        )
        assert made.shape[1] == ids.shape[1] + tokens
        return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-engine", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is taken")
    parser.add_argument("--tokens", type=int, default=64, help="of each streamed answer")
    parser.add_argument("--model", type=Path, default=DEFAULT.directory(user_cache_path("pdctl")))
    options = parser.parse_args()
    prompt = Tokenizer(options.model).encode(story(120))[:PROMPT_TOKENS]
    rounds: list[tuple[Figures, Figures]] = []
    with tempfile.TemporaryDirectory() as directory, Cluster(options.model, Path(directory)) as cluster:
        cluster.start()
        ours, theirs = Ours(cluster, prompt, options.tokens), Theirs(options.model, prompt, options.tokens)
        for number in range(options.rounds + 1):
            measured = ours.measure(), theirs.measure()
            if not number:
                continue  # the first of everything is slower
            rounds.append(measured)
            print(f"round {number}: {rounds[-1][0]}\n         {rounds[-1][1]}", flush=True)
    print(report(rounds))


def report(rounds: list[tuple[Figures, Figures]]) -> str:
    """Medians of both, and the median of the rounds' ratios."""
    names = (
        ("ttft_s", f"TTFT, {PROMPT_TOKENS} tokens", "s"),
        ("prefill_s", f"prefill, {PROMPT_TOKENS} tokens", "s"),
        ("decode_1", "decode, 1 stream", "tokens/s"),
        ("decode_n", f"decode, {STREAMS} streams", "tokens/s"),
    )
    ratios = [statistics.median(column) for column in zip(*(a.against(b) for a, b in rounds), strict=True)]
    lines = [f"| {'':24} | {'ours':>8} | {'generate':>8} | {'':8} | times as fast |"]
    for (field, name, unit), ratio in zip(names, ratios, strict=True):
        mine, other = (statistics.median(getattr(each[side], field) for each in rounds) for side in (0, 1))
        lines.append(f"| {name:24} | {mine:8.2f} | {other:8.2f} | {unit:8} | {ratio:13.2f} |")
    steps = [a.step_n_s * a.decode_n / STREAMS for a, _ in rounds if a.step_n_s is not None]
    lines.append(f"decode computes {statistics.median(steps):.0%} of the time while {STREAMS} streams run")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
