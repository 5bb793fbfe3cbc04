"""The results as a page and a plot."""

from __future__ import annotations

import statistics
from pathlib import Path

from tests.bench.kv.running import Result
from tests.bench.kv.workload import Workload

PLOT = "kv.png"


def rate(result: Result) -> float:
    """Median, in 10^9 bytes a second."""
    return result.bytes / statistics.median(result.seconds) / 1e9


def table(workload: Workload, results: list[Result]) -> list[str]:
    """Ratios are medians of each round's own: contenders of one round ran one after another, under the same load."""
    by_name = {result.contender.name: result for result in results if result.seconds}
    lines = [
        "| | GB/s | lowest to highest | of memcpy | of memcpy, non-temporal | of raw socket | processor s/GB | verified |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for result in results:
        contender = result.contender
        if result.why_not:
            lines.append(f"| {contender.name} | | left out: {result.why_not.replace('|', '/')} | | | | | |")
            continue
        rates = sorted(result.bytes / seconds / 1e9 for seconds in result.seconds)
        streams = f"raw socket, {contender.streams} stream{'s' if contender.streams > 1 else ''}"
        columns = [
            f"**{contender.name}**" if contender.ours else contender.name,
            f"{rate(result):.2f}",
            f"{rates[0]:.2f} to {rates[-1]:.2f}",
            _ratio(result, by_name.get("memcpy")),
            _ratio(result, by_name.get("memcpy, non-temporal")),
            _ratio(result, by_name.get(streams)),
            f"{statistics.median(result.cpu) / result.bytes * 1e9:.3f}",
            "yes" if contender.verified else "",
        ]
        lines.append(f"| {' | '.join(columns)} |")
    lines.append("")
    lines += [f"- {result.contender.name}: {result.contender.note}." for result in results if result.contender.note]
    return lines


def _ratio(result: Result, other: Result | None) -> str:
    if other is None or other is result:
        return ""
    pairs = zip(result.seconds, other.seconds, strict=True)
    ratio = statistics.median(theirs / other.bytes / (ours / result.bytes) for ours, theirs in pairs)
    return f"{ratio:.2f}" if ratio >= 0.01 else f"1/{1 / ratio:.0f}"


def page(workloads: list[tuple[Workload, list[Result]]], facts: dict[str, str], notes: list[str]) -> str:
    lines = [
        "# KV transfer, measured",
        "",
        "<!-- Written by scripts/bench. -->",
        "",
        "From the memory of one process into the memory of another, on one host. Every round's result was compared byte for byte",
        "with its source, outside of the time; `verified` says who does that by itself, inside of it. Figures are medians of",
        f"{facts['rounds']} rounds, in 10^9 bytes a second; in each round all contenders ran one after another, the others",
        "stopped, and a contender's two processes were bound to half of the cores each. Ratios are medians of the rounds' own",
        "ratios. Processor seconds are of both processes, kernel included. There are two memcpys because pdctl starts a prefill that",
        "writes into shared memory with copies that go past the cache; so do the shared-memory contenders here.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        f"![Bandwidth of each]({PLOT})",
        "",
    ]
    for workload, results in workloads:
        lines += [
            f"## {workload.name[0].upper()}{workload.name[1:]}",
            "",
            f"{workload.total_bytes / 2**20:.0f} MiB: {workload.layers} layers, {workload.tokens} tokens, {workload.kv_heads} KV heads of "
            f"{workload.head_dim}, {workload.dtype}, in frames of {workload.chunk} tokens ({workload.frame_bytes / 2**20:.2f} MiB).",
            "",
            *table(workload, results),
            "",
        ]
    return "\n".join([*lines, *notes]).rstrip() + "\n"


def plot(workloads: list[tuple[Workload, list[Result]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(workloads), figsize=(6.5 * len(workloads), 6), squeeze=False, layout="constrained"
    )
    for axis, (workload, results) in zip(axes[0], workloads, strict=True):
        shown = [result for result in results if result.seconds][::-1]
        rates = [rate(result) for result in shown]
        bars = axis.barh(
            [result.contender.name for result in shown],
            rates,
            color=["#1f6f8b" if result.contender.ours else "#b8bfc6" for result in shown],
        )
        axis.bar_label(bars, labels=[f"{each:.2f}" for each in rates], padding=3, fontsize=8)
        axis.set_title(workload.name, fontsize=10)
        axis.set_xlabel("GB/s, median")
        axis.margins(x=0.12)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    figure.savefig(path, dpi=110)
