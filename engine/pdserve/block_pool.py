"""Which blocks of the paged cache are free.

Blocks are given out as runs of neighbours, because a run reads and receives as one piece of memory: attention over it
needs no gather, and a frame lands in it with one copy. Fragmentation costs speed, never capacity: when no run is long
enough, the request gets several.
"""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Run:
    """`count` neighbouring blocks from `start`."""

    start: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count


class BlockPool:
    """Not thread-safe: the cache that owns it holds a lock."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._free = [Run(0, blocks)] if blocks else []  # sorted, never touching each other

    @property
    def free(self) -> int:
        return sum(run.count for run in self._free)

    def take(self, count: int) -> list[Run] | None:
        """The shortest single run that is long enough; else the longest ones.

        None, and nothing taken, if too few are free.
        """
        if count <= 0:
            raise ValueError(f"cannot take {count} blocks")
        if self.free < count:
            return None
        fitting = [run for run in self._free if run.count >= count]
        chosen = (
            [min(fitting, key=lambda run: run.count)] if fitting else sorted(self._free, key=lambda run: -run.count)
        )
        taken: list[Run] = []
        for run in chosen:
            part = Run(run.start, min(run.count, count))
            self._free.remove(run)
            if part.count < run.count:
                self._free.append(Run(part.end, run.count - part.count))
            taken.append(part)
            count -= part.count
            if count == 0:
                break
        self._free.sort()
        return taken

    def give_back(self, runs: list[Run]) -> None:
        """Raises ValueError if any block is already free or outside the pool: a double free corrupts two requests."""
        merged: list[Run] = []
        for run in sorted(self._free + runs):
            if run.start < 0 or run.end > self.blocks or (merged and run.start < merged[-1].end):
                raise ValueError(f"blocks {run.start} to {run.end - 1} were not taken")
            if merged and merged[-1].end == run.start:
                merged[-1] = Run(merged[-1].start, merged[-1].count + run.count)
            else:
                merged.append(run)
        self._free = merged

    def check_integrity(self, taken: list[Run]) -> None:
        """Every block is either free or in `taken`, exactly once. Raises ValueError naming the first that is not."""
        owners = [0] * self.blocks
        for run in self._free + taken:
            for block in range(run.start, run.end):
                owners[block] += 1
        wrong = [block for block, count in enumerate(owners) if count != 1]
        if wrong:
            raise ValueError(f"block {wrong[0]} has {owners[wrong[0]]} owners; {len(wrong)} blocks are wrong")
