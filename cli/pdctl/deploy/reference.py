"""The known tokens of the canary: what this model answers when it runs whole, in one process, on this machine.

Computed once by `python -m pdserve reference` and kept in the cache under everything that can change a rounding:
weights, dtype, device, threads, CPU, torch and transformers. The prompts are one text, cut around the lengths at
which block tables and chunked prefill go wrong: a block less one, a block, a block and one, a chunk and one.
"""

import asyncio
import hashlib
import json
import os
import platform
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pdctl.deploy import leash, logs
from pdctl.deploy.state import Record, write_private
from pdctl.paths import cache_dir
from pdserve.reference import ReferenceRun

ANSWER_TOKENS = 8
_PASSAGE = (
    "A lighthouse keeper writes down the weather every evening: the wind, the height of the waves, and the ships that "
    "pass. In winter there are weeks without a single sail, and the page for the day says only that the lamp was lit. "
    "In spring the fishing boats come back, first from the village below, then from towns along the coast, and the "
    "book fills with names. Visitors ask whether the work is lonely. The keeper answers that a light is a way of "
    "speaking to many people at once, and that most conversations are shorter than one imagines. "
)


class ReferenceFailed(Exception):
    """The one-process run did not give tokens; the text says why."""


class KnownRun(BaseModel):
    """margins: gap between the two best log-probabilities at each step of the one-process run."""

    model_config = ConfigDict(frozen=True)

    prompt: list[int]
    tokens: list[int]
    margins: list[float]


class Known(BaseModel):
    model_config = ConfigDict(frozen=True)

    model_digest: str
    runs: list[KnownRun]


def prompts(tokenizer: Path, block_tokens: int, chunk_tokens: int) -> list[list[int]]:
    """Token ids of the canary's prompts, shortest first."""
    from tokenizers import Tokenizer

    ids: list[int] = Tokenizer.from_file(str(tokenizer)).encode(_PASSAGE, add_special_tokens=False).ids
    longest = chunk_tokens + 1
    ids = ids * (longest // len(ids) + 1)
    return [ids[:length] for length in (block_tokens - 1, block_tokens, block_tokens + 1, longest)]


def cache_file(record: Record) -> Path:
    """Where the known tokens of this deployment are kept."""
    parts = {
        "files": [_stamp(file) for file in sorted(record.model.iterdir()) if file.is_file()],
        "lengths": [record.block_tokens, record.chunk_tokens, ANSWER_TOKENS],
        "passage": _PASSAGE,
        "dtype": record.dtype,
        "device": record.unit("prefill").device,
        "threads": record.unit("prefill").threads,
        "machine": [platform.machine(), _cpu()],
        "versions": [metadata.version("torch"), metadata.version("transformers")],
    }
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    return cache_dir() / "canary" / f"{key}.json"


def cached(record: Record) -> Known | None:
    """The known tokens, when they have been computed before; a file that cannot be read is as good as none."""
    with suppress(OSError, ValueError):
        return Known.model_validate_json(cache_file(record).read_bytes())
    return None


async def compute(record: Record, environment: dict[str, str], log: Path) -> Known:
    """Runs the canary's prompts in one process and keeps the answer. Raises ReferenceFailed; cancelling ends it."""
    asked = prompts(record.model / "tokenizer.json", record.block_tokens, record.chunk_tokens)
    requests = [{"token_ids": ids, "max_tokens": ANSWER_TOKENS, "ignore_eos": True} for ids in asked]
    digest, answers = await ask(record, requests, environment, log)
    runs = [
        KnownRun(prompt=prompt, tokens=answer.token_ids, margins=answer.margins)
        for prompt, answer in zip(asked, answers, strict=True)
    ]
    known = Known(model_digest=digest, runs=runs)
    file = cache_file(record)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, known.model_dump_json() + "\n")
    return known


async def ask(
    record: Record, requests: list[dict[str, Any]], environment: dict[str, str], log: Path
) -> tuple[str, list[ReferenceRun]]:
    """The model's digest, and its answers to the requests (docs/engine.md) in one process. Raises ReferenceFailed."""
    command = [sys.executable, "-m", "pdserve", "reference", "--model", str(record.model)]
    command += ["--dtype", record.dtype, "--threads", str(record.unit("prefill").threads)]
    answer = await _run(command, json.dumps({"runs": requests}).encode(), environment, log)
    try:
        document: dict[str, Any] = json.loads(answer)
        runs = [ReferenceRun(run["token_ids"], run["margins"]) for run in document["runs"]]
        if len(runs) != len(requests):
            raise ValueError(f"{len(runs)} answers to {len(requests)} requests")
        return document["model_digest"], runs
    except (ValueError, KeyError, TypeError) as error:
        raise ReferenceFailed(f"the one-process run answered something else: {error}") from error


async def _run(command: list[str], request: bytes, environment: dict[str, str], log: Path) -> bytes:
    descriptor = logs.open_to_append(log)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=descriptor,
            env=environment,
            preexec_fn=leash.die_with_parent() if sys.platform == "linux" else None,
        )
    finally:
        os.close(descriptor)
    try:
        answer, _ = await process.communicate(request)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != 0:
        raise ReferenceFailed(f"the one-process run exited with status {process.returncode}")
    return answer


def _stamp(file: Path) -> tuple[str, int, int]:
    """A file that changed has another size or time; reading the weights would take too long for every start."""
    stat = file.stat()
    return file.name, stat.st_size, stat.st_mtime_ns


def _cpu() -> str:
    """The CPU's product name; torch chooses its kernels by it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    return platform.processor() or os.uname().machine
