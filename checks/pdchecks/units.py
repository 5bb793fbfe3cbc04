"""Names of systemd units that serve models."""

import re

# Ours, and what people call units of the engines that pdctl can drive or meets on a node.
_ENGINE = re.compile(
    r"(?:pdctl-|pdserve|vllm|sglang|prefill|decode|mooncake|nvidia-(?:fabricmanager|cuda-mps)).*\.service"
)


def is_engine(name: str) -> bool:
    return _ENGINE.fullmatch(name) is not None
