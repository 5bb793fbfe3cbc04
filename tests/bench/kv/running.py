"""A contender's two processes: started once, stopped by signal while others run, one round at a time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.kv.contender import Contender
from tests.bench.kv.workload import Job, clear, same, to_json

ROOT = Path(__file__).parents[3]
START_S, ROUND_S = 90.0, 180.0


class NotThere(Exception):
    """The contender cannot take part, or broke off; says why."""


@dataclass
class Result:
    """seconds, cpu: of each round; cpu is that of both processes. bytes: of a round."""

    contender: Contender
    bytes: int
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    why_not: str = ""


class Process:
    def __init__(self, contender: Contender, role: str, job: Job) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(START_S)
        self._lines = ours.makefile("rw", encoding="utf-8")
        self._socket = ours
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        fds = (job.source.fd, job.target.fd, theirs.fileno())
        arguments = [contender.name, role, to_json(job.workload), str(job.limit), *map(str, fds)]
        path = os.pathsep.join([str(ROOT), str(ROOT / "engine"), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.kv.worker", *arguments],
            cwd=ROOT,
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": path, **contender.environment},
        )
        theirs.close()

    def say(self, **command: Any) -> None:
        self._lines.write(json.dumps(command) + "\n")
        self._lines.flush()

    def hear(self, seconds: float = ROUND_S) -> dict[str, Any]:
        self._socket.settimeout(seconds)
        try:
            line = self._lines.readline()
        except TimeoutError:
            raise NotThere(f"no answer in {seconds:g} s") from None
        answer = json.loads(line) if line else {"failed": f"its process ended: {self._last_words()}"}
        if "failed" in answer:
            raise NotThere(answer["failed"])
        return dict(answer)

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else f"exit code {self._process.poll()}"

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._lines.close()
        self._socket.close()
        self._log.close()


class Running:
    """Raises NotThere from everything but `end`."""

    def __init__(self, contender: Contender, job: Job) -> None:
        limit = min(contender.limit or job.limit, job.limit)
        self._job = Job(job.workload, job.source, job.target, limit)
        self.result = Result(contender, self._job.bytes)
        self._processes: list[Process] = []
        try:
            address = ""
            if contender.receive is not None:
                self._processes.append(Process(contender, "receiver", job=self._job))
                address = self._processes[0].hear(START_S)["ready"]
            self._processes.append(Process(contender, "sender", job=self._job))
            self._processes[-1].say(address=address)
            self._processes[-1].hear(START_S)
            self._round(0)
        except BaseException:
            self.end()
            raise
        self._pause()

    def measure(self, number: int) -> None:
        for process in self._processes:
            process.signal(signal.SIGCONT)
        seconds, cpu = self._round(number)
        self.result.seconds.append(seconds)
        self.result.cpu.append(cpu)
        self._pause()

    def _round(self, number: int) -> tuple[float, float]:
        clear(self._job)
        sender, receivers = self._processes[-1], self._processes[:-1]
        before = 0.0
        for receiver in receivers:
            receiver.say(prepare=number)
            before = receiver.hear()["cpu"]
        sender.say(round=number)
        answer = sender.hear()
        cpu = answer["cpu"]
        for receiver in receivers:
            receiver.say(cpu="")
            cpu += receiver.hear()["cpu"] - before
        if not same(self._job):
            raise NotThere("what arrived is not what was sent")
        return answer["seconds"], cpu

    def _pause(self) -> None:
        """One that spins while it waits would take the others' cores."""
        for process in self._processes:
            process.signal(signal.SIGSTOP)

    def end(self) -> None:
        for process in self._processes:
            process.end()
