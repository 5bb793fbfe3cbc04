"""What a deployment leaves on the machine that runs it: one directory, the only truth about it.

deployments/NAME/
    operator.lock   held by `up` and `down` while they change something; says who, from where, since when
    supervisor.lock held by the supervisor for as long as it lives
    record.json     what was asked for, written once by `up`
    status.json     what is the case, written by the supervisor, replaced as a whole at every change
    config/         one file a unit, 0600
    secret          0600: the units know each other by it (pdserve.secret_file says its form)
    logs/           one file a unit and its predecessors, bounded
deployments/ports.lock  held by `up` from choosing ports until they stand in a record
"""

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pdctl.deploy.process import ProcessId
from pdctl.deploy.restart import RestartPolicy

Role = Literal["prefill", "decode", "router"]
ROLES: tuple[Role, ...] = ("prefill", "decode", "router")
LOOPBACK = "127.0.0.1"
"""Where the engines of one host listen, for each other alone."""
UnitState = Literal["starting", "ready", "not-answering", "backing-off", "failed", "stopped"]
Phase = Literal["starting", "ready", "degraded", "failed", "stopping", "stopped"]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")


class UnitRecord(_Document):
    """One process. url: where it answers. device: as torch names it."""

    role: Role
    name: str
    gpu_kind: str
    device: str
    threads: int
    url: str


class Listener(NamedTuple):
    """Where one process is to listen."""

    role: Role
    host: str
    port: int


class Record(_Document):
    """What was deployed, resolved: no default is left open, so that a restart gives the same thing."""

    schema_: Literal["pdctl.deployment/1"] = Field(default="pdctl.deployment/1", alias="schema")
    name: str
    run: str
    created: float
    by: str
    model: Path
    model_name: str
    dtype: str
    security: Literal["authenticated", "encrypted"] = "authenticated"
    host: str
    port: int
    kv_port: int
    transport: Literal["tcp", "shm"] = "tcp"
    units: list[UnitRecord]
    chunk_tokens: int
    block_tokens: int
    restart: RestartPolicy
    timeout_s: float
    request_deadline_s: float = 30.0

    def unit(self, role: Role) -> UnitRecord:
        return next(unit for unit in self.units if unit.role == role)

    @property
    def listeners(self) -> list[Listener]:
        """The router first: its port is the one that people choose."""
        router, *engines = sorted(self.units, key=lambda unit: unit.role != "router")
        own = [Listener(unit.role, *_address(unit.url)) for unit in engines]
        return [Listener(router.role, self.host, self.port), *own, Listener("decode", LOOPBACK, self.kv_port)]

    @property
    def ports(self) -> set[int]:
        return {listener.port for listener in self.listeners}

    @property
    def endpoint(self) -> str:
        return self.unit("router").url


def _address(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)


class StageStatus(_Document):
    """One thing that has to happen before the deployment is ready. waits_for completes `waiting for ...`."""

    name: str
    waits_for: str
    limit_s: float
    started: float
    seconds: float | None = None
    note: str | None = None
    failed: str | None = None


class UnitStatus(_Document):
    state: UnitState = "starting"
    process: ProcessId | None = None
    since: float | None = None
    restarts: int = 0
    exits: list[float] = []
    reason: str | None = None


class CanaryStatus(_Document):
    """The last canary. wrong: it was answered, but not rightly. tokens, kv_bytes: what crossed for it."""

    at: float
    passed: bool
    wrong: bool = False
    reason: str | None = None
    tokens: int = 0
    kv_bytes: int = 0
    seconds: float = 0.0


class Status(_Document):
    """out_of_time: the start failed only because its time was over."""

    schema_: Literal["pdctl.supervisor/1"] = Field(default="pdctl.supervisor/1", alias="schema")
    supervisor: ProcessId | None = None
    phase: Phase = "starting"
    since: float
    reason: str | None = None
    stages: list[StageStatus] = []
    units: dict[Role, UnitStatus] = {}
    canary: CanaryStatus | None = None
    out_of_time: bool = False


class StateUnreadable(Exception):
    """A file of the state directory is not what this version writes."""


_D = TypeVar("_D", bound=BaseModel)


class StateDir:
    """Paths and whole-file reads and writes; no knowledge of processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operator_lock = root / "operator.lock"
        self.supervisor_lock = root / "supervisor.lock"
        self.secret = root / "secret"
        self.logs = root / "logs"

    def prepare(self) -> None:
        """Makes the directories, private to this user, and a new secret."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.logs.mkdir(exist_ok=True, mode=0o700)
        (self.root / "config").mkdir(exist_ok=True, mode=0o700)
        write_private(self.secret, secrets.token_hex(32) + "\n")

    def config(self, role: Role) -> Path:
        return self.root / "config" / f"{role}.json"

    def log(self, unit: str) -> Path:
        return self.logs / f"{unit}.log"

    def write_record(self, record: Record) -> None:
        write_private(self.root / "record.json", record.model_dump_json(by_alias=True, indent=2) + "\n")

    def write_status(self, status: Status) -> None:
        write_private(self.root / "status.json", status.model_dump_json(by_alias=True, indent=2) + "\n")

    def record(self) -> Record | None:
        """None when nothing is deployed. Raises StateUnreadable."""
        return _load(self.root / "record.json", Record)

    def status(self) -> Status | None:
        """None before the supervisor's first word. Raises StateUnreadable."""
        return _load(self.root / "status.json", Status)

    def run_of_lock(self) -> str | None:
        """The run that the supervisor wrote into its lock, whether it lives or not; None when there is none."""
        try:
            said = self.supervisor_lock.read_bytes()[:1024].decode(errors="replace").split()
        except OSError:
            return None
        return said[1] if len(said) == 2 and said[0] == "run" else None

    def forget(self) -> None:
        """Removes the run state. The logs stay (a post-mortem needs them), and the lock files (see filelock)."""
        for path in (self.root / "record.json", self.root / "status.json", self.secret):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.root / "config", ignore_errors=True)


def write_private(path: Path, text: str) -> None:
    """Replaces the file as a whole: a reader sees the old text or the new, never a part. Mode 0600 from the start."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def _load(path: Path, kind: type[_D]) -> _D | None:
    try:
        return kind.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError) as error:
        raise StateUnreadable(f"{path}: {error}") from error
