"""A deployment of real processes on loopback, started and ended by a test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

MODEL_NAME = "test-model"
LOAD_SECONDS = 240.0  # on two cores that five processes import torch on, beside other work
STOP_SECONDS = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Node:
    """One process. module: what `python -m` runs; a test may put its own launcher in pdserve's place."""

    role: str
    config: dict[str, Any]
    directory: Path
    module: str = "pdserve"
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return str(self.config["name"])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.config['listen']['port']}"

    @property
    def log_file(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        config = self.directory / f"{self.name}.json"
        config.write_text(json.dumps(self.config), encoding="utf-8")
        command = [sys.executable, "-m", self.module, *self.arguments, self.role, "--config", str(config)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=environment)

    def wait_healthy(self) -> None:
        """Until /health answers at all for a router, 200 for an engine. Fails with the log when the process ends."""
        end = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < end:
            assert self.runs, self.log()
            try:
                status = httpx.get(f"{self.url}/health", timeout=5, trust_env=False).status_code
                if status == 200 or self.role == "router":
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"{self.name} was not ready in {LOAD_SECONDS:g} s: {self.log()}")

    def kill(self) -> None:
        """As `kill -9` does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=STOP_SECONDS)

    def stop(self) -> int:
        """SIGTERM; returns the exit code. Raises subprocess.TimeoutExpired when it does not end."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=STOP_SECONDS)

    def end(self) -> None:
        if self.runs:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()

    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")[-4000:] if self.log_file.exists() else ""

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self.log_file.read_text(encoding="utf-8").splitlines()
        return [event for line in lines if line.startswith("{") and (event := json.loads(line))["event"] == name]

    def metric(self, name: str) -> float:
        """The sum over its labels."""
        lines = httpx.get(f"{self.url}/metrics", timeout=5, trust_env=False).text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


@dataclass
class Cluster:
    """prefills, decodes: how many of each. Settings go into every config of their role."""

    model: Path
    directory: Path
    prefills: int = 1
    decodes: int = 1
    kv_transport: str = "tcp"
    prefill_settings: dict[str, Any] = field(default_factory=dict)
    decode_settings: dict[str, Any] = field(default_factory=dict)
    router_settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = {"path": str(self.model), "name": MODEL_NAME, "threads": 1}

        def node(role: str, name: str, **settings: Any) -> Node:
            config = {"role": role, "name": name, "listen": {"port": free_port()}, "model": model, **settings}
            return Node(role, config, self.directory)

        self.prefill = [node("prefill", f"p{number}", **self.prefill_settings) for number in range(self.prefills)]
        self.decode = [
            node(
                "decode",
                f"d{number}",
                kv_listen={"port": free_port(), "transport": self.kv_transport},
                **self.decode_settings,
            )
            for number in range(self.decodes)
        ]
        self.router = node(
            "router",
            "r0",
            prefill=[{"name": one.name, "url": one.url} for one in self.prefill],
            decode=[{"name": one.name, "url": one.url} for one in self.decode],
            **self.router_settings,
        )

    @property
    def nodes(self) -> list[Node]:
        return [*self.prefill, *self.decode, self.router]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for node in reversed(self.nodes):
            node.end()

    def start(self) -> None:
        """All processes that do not run, until each is ready; the router open."""
        for node in self.nodes:
            if not node.runs:
                node.start()
        for node in self.nodes:
            node.wait_healthy()
        httpx.post(f"{self.router.url}/internal/open", timeout=5, trust_env=False).raise_for_status()

    def complete(self, prompt: list[int] | str, max_tokens: int, **parameters: Any) -> dict[str, Any]:
        """One whole greedy completion with its token ids and figures. Raises httpx.HTTPStatusError."""
        body = {
            "model": MODEL_NAME,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0.0,
            "return_token_ids": True,
            "pdctl": {"figures": True},
            **parameters,
        }
        answer = httpx.post(f"{self.router.url}/v1/completions", json=body, timeout=120, trust_env=False)
        answer.raise_for_status()
        value: dict[str, Any] = answer.json()
        return value

    def tokens(self, prompt: list[int], max_tokens: int, **parameters: Any) -> list[int]:
        ids: list[int] = self.complete(prompt, max_tokens, **parameters)["choices"][0]["token_ids"]
        return ids


@dataclass
class Stream:
    """What a streamed answer gave, and when. times, ended: `time.monotonic()`, of each chunk with tokens and of the end.

    left: set it, and its client goes.
    """

    token_ids: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    error: dict[str, Any] | None = None
    finish_reason: str | None = None
    figures: dict[str, Any] | None = None
    ended: float = 0.0
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def longest_gap(self) -> float:
        """Seconds between neighbouring chunks."""
        return max(self.gaps(), default=0.0)

    def gaps(self, after: float = 0.0, before: float = float("inf")) -> list[float]:
        """Between neighbouring chunks, the later of which came in that time."""
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False) if after <= b <= before]

    def read(self, cluster: Cluster, prompt: list[int], max_tokens: int, **parameters: Any) -> Stream:
        """Until the end. Runs in a thread of the test's."""
        return self.read_from(f"{cluster.router.url}/v1", MODEL_NAME, prompt, max_tokens, **parameters)

    def read_from(self, endpoint: str, model: str, prompt: list[int], max_tokens: int, **parameters: Any) -> Stream:
        """Until the end, or until `left` is set. endpoint: with its `/v1`."""
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0.0,
            "stream": True,
            "return_token_ids": True,
            "pdctl": {"figures": True},
            **parameters,
        }
        url = f"{endpoint}/completions"
        with httpx.stream("POST", url, json=body, timeout=120, trust_env=False) as response:
            if response.status_code != 200:
                self.error = json.loads(response.read())["error"]
            for line in response.iter_lines() if self.error is None else ():
                if self.left.is_set():
                    break
                if line.startswith("data: ") and line != "data: [DONE]":
                    self._take(json.loads(line.removeprefix("data: ")))
        self.ended = time.monotonic()
        return self

    def _take(self, chunk: dict[str, Any]) -> None:
        self.error = chunk.get("error", self.error)
        self.figures = chunk.get("pdctl", self.figures)
        for choice in chunk.get("choices", ()):
            self.finish_reason = choice["finish_reason"] or self.finish_reason
            if choice.get("token_ids"):
                self.token_ids += choice["token_ids"]
                self.times.append(time.monotonic())
