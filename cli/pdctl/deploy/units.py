"""From a record to what the engine is started with: one configuration file and one command a unit."""

import os
import sys
from typing import Any

from pydantic import BaseModel

from pdctl.deploy.process import RUN_VARIABLE
from pdctl.deploy.state import ROLES, Record, Role, StateDir, write_private

DRAIN_S = 5.0
"""How long a unit may finish what it has begun when it is asked to stop."""
STOP_GRACE_S = DRAIN_S + 3.0
"""How long a unit may take to end before it is killed."""
STOP_ORDER: tuple[Role, ...] = ("router", "prefill", "decode")
"""No new request first, then no new KV, then the running streams."""


def write_configs(state: StateDir, record: Record) -> None:
    """Writes the three files, validated by the engine's own schema so that an error shows before anything starts."""
    from pdserve.config import DecodeConfig, PrefillConfig, RouterConfig

    schemas: dict[Role, type[BaseModel]] = {"prefill": PrefillConfig, "decode": DecodeConfig, "router": RouterConfig}
    for role in ROLES:
        config = schemas[role].model_validate(_config(state, record, role))
        write_private(state.config(role), config.model_dump_json(indent=2) + "\n")


def command(state: StateDir, role: Role) -> list[str]:
    return [sys.executable, "-m", "pdserve", role, "--config", str(state.config(role))]


def environment(record: Record, role: Role | None = None) -> dict[str, str]:
    """What a unit inherits: UTF-8 whatever the locale, no model hub, one visible device, and the run's mark."""
    from pdserve.transport.segment import COPY_ENVIRONMENT

    device = record.unit(role or "prefill").device
    return {
        **(COPY_ENVIRONMENT if record.transport == "shm" and role == "prefill" else {}),
        **os.environ,
        "PYTHONUTF8": "1",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": device.removeprefix("cuda:") if device.startswith("cuda:") else "",
        RUN_VARIABLE: record.run,
    }


def _config(state: StateDir, record: Record, role: Role) -> dict[str, Any]:
    unit = record.unit(role)
    host, _, port = unit.url.removeprefix("http://").rpartition(":")
    common = {
        "role": role,
        "name": unit.name,
        "run": record.run,
        "listen": {"host": record.host if role == "router" else host.strip("[]"), "port": int(port)},
        "model": {
            "path": record.model,
            "name": record.model_name,
            "dtype": record.dtype,
            # With one visible device a process sees its own as the first.
            "device": "cuda" if unit.device.startswith("cuda") else "cpu",
            "threads": unit.threads,
        },
        "secret_file": state.secret,
        "security": record.security,
        "drain_s": DRAIN_S,
    }
    if role == "prefill":
        return {**common, "chunk_tokens": record.chunk_tokens}
    if role == "decode":
        return {
            **common,
            "kv_listen": {"port": record.kv_port, "transport": record.transport},
            "block_tokens": record.block_tokens,
        }
    pools: tuple[Role, ...] = ("prefill", "decode")
    peers: dict[str, Any] = {pool: [{"name": record.unit(pool).name, "url": record.unit(pool).url}] for pool in pools}
    return {**common, **peers, "request_deadline_s": record.request_deadline_s}
