"""The gpu_kinds of this host: what `--prefill KIND` and `--decode KIND` can choose from."""

import re
import shutil
import subprocess
from dataclasses import dataclass

from pdctl.errors import UsageError

_DEADLINE_S = 10.0
CPU = "cpu"


@dataclass(frozen=True, slots=True)
class HostKinds:
    """gpus: gpu_kind of each GPU, in device order. reason: why there are none, or None."""

    gpus: tuple[str, ...]
    reason: str | None

    @property
    def default(self) -> str:
        return self.gpus[0] if self.gpus else CPU

    def device(self, kind: str | None, option: str) -> tuple[str, str]:
        """(gpu_kind, torch device) for a kind asked for. Raises UsageError when this host has none of it."""
        wanted = (kind or self.default).lower()
        if wanted == CPU:
            return CPU, "cpu"
        if wanted in self.gpus:
            return wanted, f"cuda:{self.gpus.index(wanted)}"
        found = ", ".join((*dict.fromkeys(self.gpus), CPU))
        raise UsageError(
            f"`{option} {wanted}`: this host has no `{wanted}`",
            detail=f"found here: {found}" + (f" ({self.reason})" if self.reason else ""),
            hint="pools on other nodes need an inventory (`-i INVENTORY`), which this release cannot deploy to yet",
        )


def probe() -> HostKinds:
    """Asks nvidia-smi; a host without it, or where it fails, has the kind `cpu` only, with the reason kept."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return HostKinds((), "no NVIDIA driver: nvidia-smi not found")
    try:
        query = [command, "--query-gpu=name", "--format=csv,noheader"]
        answer = subprocess.run(query, capture_output=True, encoding="utf-8", errors="replace", timeout=_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return HostKinds((), f"nvidia-smi: {error}")
    if answer.returncode != 0:
        said = (answer.stdout + answer.stderr).strip().splitlines()
        return HostKinds((), f"nvidia-smi exits {answer.returncode}: {said[0] if said else 'says nothing'}")
    names = tuple(kind_of(line) for line in answer.stdout.splitlines() if line.strip())
    return HostKinds(names, None if names else "nvidia-smi lists no GPU")


def kind_of(product: str) -> str:
    """`NVIDIA H100 80GB HBM3` → `h100`: the first word that is a model and not a brand.

    The names are those that nvidia-smi prints; an unknown product keeps its own words, joined by dashes.
    """
    words = [word for word in re.split(r"[\s-]+", product.lower()) if word]
    for word in words:
        if re.fullmatch(r"(?:[a-z]{1,3}\d{1,4}[a-z]{0,2}|orin|thor)", word):
            return word
    return "-".join(word for word in words if word not in ("nvidia", "geforce", "tesla")) or "gpu"
