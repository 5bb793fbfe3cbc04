"""Runs the KV benchmark and writes docs/bench/kv.md and its plot; `scripts/bench` sets up what it needs."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.bench.kv.contenders import CONTENDERS
from tests.bench.kv.report import page, plot, rate
from tests.bench.kv.running import ROOT, NotThere, Result, Running
from tests.bench.kv.workload import ONE_GIB, Job, Workload, fill, from_json, machine

from pdserve.transport.segment import Segment


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is taken")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", default=[], help="contenders whose name contains one of these"
    )
    parser.add_argument("--mib", type=int, default=1024, help="of KV in the large workload")
    parser.add_argument("--no-prompt", action="store_true", help="leave out the real prompt")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs" / "bench", help="directory of the page and the plot"
    )
    options = parser.parse_args()
    chosen = [each for each in CONTENDERS if not options.only or any(part in each.name for part in options.only)]
    begun, facts = time.monotonic(), machine()
    large = replace(ONE_GIB, tokens=ONE_GIB.tokens * options.mib // 1024) if options.mib != 1024 else ONE_GIB
    workloads: list[tuple[Workload, list[Result]]] = []
    notes: list[str] = []
    source = Segment.create(large.total_bytes)
    fill(source, large)
    workloads.append((large, run(large, source, chosen, options.rounds)))
    source.close()
    if not options.no_prompt:
        prompt = real_prompt()
        if isinstance(prompt, str):
            notes.append(f"The real prompt is left out: {prompt}.")
        else:
            workloads.append((prompt[0], run(*prompt, chosen, options.rounds)))
    facts = {"rounds": str(options.rounds), **facts, "load at the end": machine()["load"]}
    facts["duration"] = f"{time.monotonic() - begun:.0f} s"
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "kv.md").write_text(page(workloads, facts, notes), encoding="utf-8")
    try:
        plot(workloads, options.output / "kv.png")
    except ImportError as error:
        print(f"bench: no plot: {error}", file=sys.stderr)
    print(options.output / "kv.md")


def run(workload: Workload, source: Segment, contenders: list, rounds: int) -> list[Result]:  # type: ignore[type-arg]
    target = Segment.create(workload.total_bytes)
    job = Job(workload, source, target, workload.total_bytes)
    running: dict[str, Running] = {}
    results: list[Result] = []
    for contender in contenders:
        try:
            running[contender.name] = one = Running(contender, job)
            results.append(one.result)
        except NotThere as error:
            results.append(Result(contender, 0, why_not=str(error)))
        print(f"{contender.name}: {results[-1].why_not or 'ready'}", file=sys.stderr)
    try:
        for number in range(1, rounds + 1):
            for name, one in list(running.items()):
                try:
                    one.measure(number)
                except NotThere as error:
                    one.result.why_not = str(error)
                    running.pop(name).end()
            print(f"{workload.name}: round {number} of {rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    finally:
        for one in running.values():
            one.end()
        target.close()
    for result in results:
        if not result.why_not:
            print(f"{result.contender.name:>32}  {rate(result):6.2f} GB/s", file=sys.stderr)
    return results


def real_prompt() -> tuple[Workload, Segment] | str:
    """Or why there is none."""
    from platformdirs import user_cache_path

    from pdserve.embedded import DEFAULT

    directory = Path(os.environ.get("PDCTL_TEST_MODEL") or DEFAULT.directory(user_cache_path("pdctl")))
    if not (directory / "config.json").is_file():
        return "the embedded model is not there; `pdctl model fetch`"
    command = [sys.executable, "-m", "tests.bench.kv.prompt_kv", str(directory)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "engine"), os.environ.get("PYTHONPATH", "")])
    computed = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE)
    if computed.returncode:
        return "its KV could not be computed"
    line, _, kv = computed.stdout.partition(b"\n")
    workload = from_json(line.decode())
    source = Segment.create(workload.total_bytes)
    np.frombuffer(source.view, np.uint8)[: len(kv)] = np.frombuffer(kv, np.uint8)
    return workload, source


if __name__ == "__main__":
    main()
