"""The GPU table: what a GPU can do by its kind, its family or the name that nvidia-smi prints."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

import yaml

from pdchecks.unknown import Unknown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gpu:
    """tflops: dense, by dtype (`fp32`, `tf32`, `bf16`, `fp16`, `fp8`). memory_gb_s: 1e9 bytes/s. memory_gib: as sold.

    compute_capability: (9, 0); None where the maker has no such thing.
    """

    kind: str
    family: str
    names: tuple[str, ...]
    compute_capability: tuple[int, int] | None
    tflops: Mapping[str, float]
    memory_gb_s: float | None
    memory_gib: float | None
    source: str


@cache
def gpu_table() -> tuple[Gpu, ...]:
    document = yaml.safe_load(files("pdchecks").joinpath("data/gpus.yml").read_text(encoding="utf-8"))
    return tuple(
        Gpu(
            kind=kind,
            family=row["family"],
            names=tuple(row["names"]),
            compute_capability=_capability(row.get("compute_capability")),
            tflops=row["tflops"],
            memory_gb_s=row.get("memory_gb_s"),
            memory_gib=row.get("memory_gib"),
            source=row["source"],
        )
        for kind, row in document["gpus"].items()
    )


def _capability(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """One or more boards that a user's word may mean; `h100` means three. A figure is known where all agree."""

    word: str
    boards: tuple[Gpu, ...]

    def figure(self, of: Callable[[Gpu], T]) -> T | Unknown:
        values = {of(board) for board in self.boards}
        if len(values) == 1:
            return values.pop()
        return Unknown(f"`{self.word}` may be {', '.join(board.kind for board in self.boards)}: say which")

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(board.kind for board in self.boards)

    @property
    def is_cpu(self) -> bool:
        return all(board.family == "cpu" for board in self.boards)

    @property
    def compute_capability(self) -> tuple[int, int] | Unknown:
        found = self.figure(lambda board: board.compute_capability)
        return Unknown(f"{self.word} has no CUDA compute capability") if found is None else found

    def __str__(self) -> str:
        return self.word


def find_gpu(word: str) -> GpuChoice | Unknown:
    """By kind (`h100-pcie`), family (`h100`) or nvidia-smi's name, in any case."""
    wanted = word.strip().lower()
    table = gpu_table()
    for boards in (
        tuple(board for board in table if wanted == board.kind),
        tuple(board for board in table if wanted == board.family),
        tuple(board for board in table if wanted in {name.lower() for name in board.names}),
    ):
        if boards:
            only, *others = boards
            return GpuChoice(wanted if others else only.kind, boards)
    close = close_kinds(word)
    return Unknown(f"no GPU of the kind {word!r} in the table" + (f" (near it: {', '.join(close)})" if close else ""))


def close_kinds(word: str) -> list[str]:
    """Kinds and families that a misspelt word may mean, nearest first."""
    names = dict.fromkeys(name for board in gpu_table() for name in (board.family, board.kind))
    return difflib.get_close_matches(word.strip().lower(), names, n=3)
