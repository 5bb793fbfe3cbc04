"""A prefill process of its own: `python -m tests.contract.shm_prefill ADDRESS`. Says what happened, then waits to be killed."""

from __future__ import annotations

import sys

from tests.contract.kv_sink import soon
from tests.kv_examples import PREFILL, layer_frame, request_id

from pdserve.transport.base import TransferFailed
from pdserve.transport.shm import ShmTransport
from pdwire import Limits


def main() -> None:
    try:
        limits = Limits(idle_s=0.6, request_s=60)
        sender = ShmTransport(limits).connect(sys.argv[1], PREFILL, deadline=soon())
    except TransferFailed as error:
        print(error, flush=True)
        return
    frame = layer_frame(request_id(1))
    sender.push(frame, [memoryview(bytes(frame.body_bytes))], deadline=soon())
    print("pushed", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
