"""A process on a unit's port is that unit only when it says so: of this run, and not of another's."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pdctl.deploy.control import CallFailed, Control
from pdserve.secret_file import SecretFile


@contextmanager
def answering(body: dict[str, Any]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def secret(tmp_path: Path) -> SecretFile:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text("0" * 64 + "\n", encoding="ascii")
    return SecretFile(file)


@pytest.mark.parametrize(("run", "stranger"), [({"run": "mine"}, False), ({"run": "another user's"}, True), ({}, True)])
def test_only_a_unit_of_this_run_is_ready(secret: SecretFile, run: dict[str, str], stranger: bool) -> None:
    async def asked() -> tuple[str | None, str | None, bool | None]:
        control = Control(secret, "mine")
        with answering({"status": "ready"} | run) as engine, answering({"status": "open"} | run) as router:
            try:
                opened: bool | None = await control.is_open(router)
            except CallFailed:
                opened = None
            unready = await control.engine_unready(engine), await control.router_unready(router), opened
        await control.close()
        return unready

    other = "another process answers on its port"
    assert asyncio.run(asked()) == ((other, other, None) if stranger else (None, None, True))
