"""Names of systemd units that serve models, and of those that GPUs need."""

import re

# Ours, and what people call units of the engines that pdctl drives or meets on a node.
_ENGINE = re.compile(r"(?:pdctl-|pdserve|vllm|sglang|prefill|decode|mooncake).*\.service")
# systemd's own default gives up after so many starts in ten seconds; systemd.unit(5), StartLimitBurst.
MANY_RESTARTS = 5
GPU_DAEMONS = (
    "nvidia-fabricmanager.service",
    "nvidia-persistenced.service",
    "nvidia-mps.service",
    "nvidia-imex.service",
)


def is_engine(name: str) -> bool:
    return _ENGINE.fullmatch(name) is not None
