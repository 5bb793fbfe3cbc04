"""What `/v1/info` says of an engine process."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

from pdserve.config import DecodeConfig, PrefillConfig
from pdwire import CompatRecord


def engine_info(config: PrefillConfig | DecodeConfig, record: CompatRecord) -> dict[str, Any]:
    import torch

    compat = {field.name: getattr(record, field.name) for field in fields(record)}
    compat |= {"dtype": record.dtype.label, "rope": dict(record.rope)}
    return {
        "role": config.role,
        "name": config.name,
        "pid": os.getpid(),
        "model": {"name": config.model.name, "path": str(config.model.path), "device": config.model.device},
        "threads": torch.get_num_threads(),
        "compat": compat,
    }
