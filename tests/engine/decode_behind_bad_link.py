"""`python -m tests.engine.decode_behind_bad_link --flip OFFSET decode --config FILE`: a decode process whose ticket
leads over a link that
alters one byte of what prefill sends. The product has no such switch: the launcher wraps the transport."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.contract.bad_link import BadLink

from pdserve.config import DecodeConfig
from pdserve.decode_server import DecodeServer
from pdserve.logs import log_library_messages
from pdserve.transport.base import KvListener, KvSender, KvSink
from pdserve.transport.tcp import TcpTransport
from pdwire import CompatRecord


class ListenerBehindLink:
    def __init__(self, listener: KvListener, link: BadLink) -> None:
        self._listener = listener
        self._link = link
        self.address = link.address

    def abort(self, request: bytes, reason: str) -> bool:
        return self._listener.abort(request, reason)

    def close(self) -> None:
        self._listener.close()
        self._link.__exit__(None, None, None)


class TransportBehindLink:
    name = "tcp"

    def __init__(self, flip: int) -> None:
        self._tcp = TcpTransport()
        self._flip = flip

    def listen(self, host: str, port: int, record: CompatRecord, sink: KvSink) -> KvListener:
        listener = self._tcp.listen(host, port, record, sink)
        return ListenerBehindLink(listener, BadLink(listener.address, flip=self._flip).__enter__())

    def connect(self, address: str, record: CompatRecord, *, deadline: float) -> KvSender:
        return self._tcp.connect(address, record, deadline=deadline)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--flip", type=int, required=True)
    parser.add_argument("role", choices=("decode",))
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args()
    log_library_messages()
    config = DecodeConfig.model_validate_json(options.config.read_text(encoding="utf-8"))
    return DecodeServer(config, TransportBehindLink(options.flip)).run()


if __name__ == "__main__":
    sys.exit(main())
