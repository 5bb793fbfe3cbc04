"""From a specification to a record: kinds to devices, defaults to values, ports that are free now."""

import os
import secrets
import time
from collections.abc import Collection

from pdctl.deploy import kinds, ports
from pdctl.deploy.models import ServedModel
from pdctl.deploy.spec import DeploymentSpec
from pdctl.deploy.state import LOOPBACK, Record, Role, UnitRecord

# The engine's own defaults (engine/pdserve/config.py), stated because the canary's prompts are cut around them.
CHUNK_TOKENS = 256
BLOCK_TOKENS = 16


def devices(spec: DeploymentSpec) -> dict[Role, tuple[str, str]]:
    """(gpu_kind, torch device) of each process. Raises UsageError for a kind that this host has not."""
    host = kinds.probe()
    return {
        "prefill": host.device(spec.pools.prefill.kind, "--prefill"),
        "decode": host.device(spec.pools.decode.kind, "--decode"),
        "router": (kinds.CPU, "cpu"),
    }


def record(
    spec: DeploymentSpec,
    model: ServedModel,
    devices: dict[Role, tuple[str, str]],
    by: str,
    promised: Collection[int] = (),
) -> Record:
    """The deployment with nothing left open. by: who asks for it. promised: ports of other deployments.

    Raises PdError when a port cannot be had.
    """
    host, port = spec.router.host, spec.router.port
    free = ports.free_ports(LOOPBACK, 4, promised)
    if port == 0:
        port = free[3]
    ports.require_free(host, port)
    half = max(1, len(_usable_cores()) // 2)
    threads: dict[Role, int] = {
        "prefill": spec.pools.prefill.threads or half,
        "decode": spec.pools.decode.threads or half,
        "router": 1,
    }
    names: dict[Role, str] = {"prefill": "p0", "decode": "d0", "router": "r0"}
    urls: dict[Role, str] = {
        "prefill": f"http://{LOOPBACK}:{free[0]}",
        "decode": f"http://{LOOPBACK}:{free[1]}",
        "router": f"http://{_reachable(host)}:{port}",
    }
    on_cpu = all(device == "cpu" for _, device in devices.values())
    return Record(
        name=spec.name,
        run=secrets.token_hex(8),
        created=time.time(),
        by=by,
        model=model.path,
        model_name=model.name,
        dtype=spec.dtype or ("float32" if on_cpu else "bfloat16"),
        security=spec.security,
        host=host,
        port=port,
        kv_port=free[2],
        transport=spec.transport,
        units=[
            UnitRecord(
                role=role,
                name=names[role],
                gpu_kind=devices[role][0],
                device=devices[role][1],
                threads=threads[role],
                url=urls[role],
            )
            for role in names
        ],
        chunk_tokens=CHUNK_TOKENS,
        block_tokens=BLOCK_TOKENS,
        restart=spec.restart,
        timeout_s=spec.timeout_s,
        request_deadline_s=spec.router.request_deadline_s,
    )


def _reachable(host: str) -> str:
    """An address at which a listener on `host` answers from this host."""
    if host in ("0.0.0.0", "::"):
        return LOOPBACK
    return f"[{host}]" if ":" in host else host


def _usable_cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
