"""`python -m tests.fuzz.run_mutants COUNT SEED`: so many damaged inputs in a process of its own; prints what it took."""

from __future__ import annotations

import itertools
import json
import resource
import sys

from tests.fuzz.mutants import mutants
from tests.fuzz.target import feed, seeds


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    for sound in seeds():
        feed(sound)
    before, understood = peak_mib(), 0
    for data in itertools.islice(mutants(seed), count):
        try:
            understood += feed(data)
        except BaseException:
            print(f"input {data.hex()}", file=sys.stderr)
            raise
    print(json.dumps({"inputs": count, "understood": understood, "grown_mib": round(peak_mib() - before, 1)}))


if __name__ == "__main__":
    main()
