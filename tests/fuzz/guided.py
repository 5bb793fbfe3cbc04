"""`python -m tests.fuzz.guided RUNS CORPUS [NEW]`: libFuzzer, guided by the coverage of pdwire (atheris).

Reads inputs from CORPUS, writes to NEW those that reach code that no earlier one did. Exits 0 after RUNS inputs; any crash,
an input that takes too long (`target.MOST_CPU_S`), and more than 64 MiB above what the process has at the start end it
with another code. Give it a deadline from outside: libFuzzer's own rings its alarm while the process ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris
import psutil

with atheris.instrument_imports(include=["pdwire"]):
    import pdwire  # noqa: F401

from tests.fuzz.target import feed, seeds

MOST_MIB = 64
LONGEST = 4096


def one_input(data: bytes) -> None:
    feed(data)


def main() -> None:
    runs, corpus, *new = sys.argv[1:]
    folders = [*new, corpus]
    for number, seed in enumerate(seeds()):
        Path(folders[0], f"seed-{number:02}").write_bytes(seed)
    for seed in seeds():
        feed(seed)
    limit = psutil.Process().memory_info().rss // (1 << 20) + MOST_MIB
    options = [f"-atheris_runs={runs}", f"-max_len={LONGEST}", f"-rss_limit_mb={limit}", "-timeout=10000", "-seed=1"]
    atheris.Setup([sys.argv[0], *options, *folders], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
