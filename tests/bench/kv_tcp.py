"""KV over the tcp transport, process to process on this host, against a raw socket with the same buffers.

`python tests/bench/kv_tcp.py [--gib 1] [--frame-mib 0.0625 1 8]` prints one line for each; nothing is asserted.
The raw socket moves the same bytes with sendall and recv_into and verifies nothing; the transport verifies every frame.
Figures are medians of five, in 10^9 bytes a second, from the first push to COMPLETE.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).parents[2] / room) for room in ("engine", "")]

from pdserve.transport.stream import size_buffers
from pdserve.transport.tcp import BUFFER_BYTES, TcpTransport
from pdwire import CompatRecord, DType, FirstToken, LayerFrame

MIB = 1 << 20
ROUNDS = 5
RECORD = CompatRecord(
    name="bench",
    model_digest="none",
    tokenizer_digest="none",
    rope={},
    layers=65536,
    kv_heads=8,
    head_dim=128,
    dtype=DType.BFLOAT16,
    engine="bench",
    engine_version="1",
    attention_backend="none",
    capacity_tokens=1 << 30,
    transports=("tcp",),
)
TOKEN_BYTES = 2 * RECORD.kv_heads * RECORD.head_dim * RECORD.dtype.itemsize


class Sink:
    """Scatters every frame into the blocks of one buffer, 16 tokens each, as a paged cache would."""

    def __init__(self, frame_bytes: int) -> None:
        memory = memoryview(bytearray(frame_bytes))
        step = 16 * TOKEN_BYTES // 2
        self._views = [memory[at : at + step] for at in range(0, frame_bytes, step)]

    def place(self, frame: LayerFrame) -> Sequence[memoryview]:
        return self._views

    def landed(self, frame: LayerFrame) -> None: ...

    def first_token(self, done: FirstToken) -> None: ...

    def aborted(self, request: bytes, reason: str) -> None:
        print(f"aborted: {reason}", file=sys.stderr)


def kv_receiver(pipe: Pipe, frame_bytes: int) -> None:
    listener = TcpTransport().listen("127.0.0.1", 0, RECORD, Sink(frame_bytes))
    pipe.send(listener.address)
    pipe.recv()
    listener.close()


def raw_receiver(pipe: Pipe, frame_bytes: int) -> None:
    with socket.socket() as server:
        size_buffers(server, BUFFER_BYTES)
        server.bind(("127.0.0.1", 0))
        server.listen()
        pipe.send(server.getsockname())
        memory = memoryview(bytearray(frame_bytes))
        total = pipe.recv()
        with server.accept()[0] as client:
            for _ in range(ROUNDS):
                left = total
                while left:
                    count = client.recv_into(memory[: min(left, frame_bytes)])
                    if not count:
                        return
                    left -= count
                client.sendall(b"k")


def kv_round(address: str, frame_bytes: int, total: int) -> list[float]:
    sender = TcpTransport().connect(address, RECORD, deadline=time.monotonic() + 10)
    body = [memoryview(bytearray(frame_bytes))]
    count = frame_bytes // TOKEN_BYTES

    def once(number: int) -> None:
        request = (number + 1).to_bytes(16, "big")
        deadline = time.monotonic() + 60
        for layer in range(total // frame_bytes):
            frame = LayerFrame(
                request=request,
                layer=layer,
                first_token=0,
                count=count,
                dtype=RECORD.dtype,
                kv_heads=RECORD.kv_heads,
                head_dim=RECORD.head_dim,
            )
            sender.push(frame, body, deadline=deadline)
        sender.finish(FirstToken(request=request, token=0, prompt_tokens=count), deadline=deadline)

    rates = timed(once, total)
    sender.close()
    return rates


def raw_round(address: tuple[str, int], frame_bytes: int, total: int) -> list[float]:
    with socket.socket() as sock:
        size_buffers(sock, BUFFER_BYTES)
        sock.connect(address)
        body = memoryview(bytearray(frame_bytes))

        def once(number: int) -> None:
            for _ in range(total // frame_bytes):
                sock.sendall(body)
            sock.recv(1)

        return timed(once, total)


def timed(once: Callable[[int], None], total: int) -> list[float]:
    rates = []
    for number in range(ROUNDS):
        begun = time.perf_counter()
        once(number)
        rates.append(total / (time.perf_counter() - begun) / 1e9)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=1.0, help="moved in each round")
    parser.add_argument("--frame-mib", type=float, nargs="+", default=[0.0625, 1, 8])
    arguments = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    for frame_mib in arguments.frame_mib:
        frame_bytes = int(frame_mib * MIB)
        total = int(arguments.gib * 1024 * MIB) // frame_bytes * frame_bytes
        medians = {}
        for name, receiver, rounds in (("raw socket", raw_receiver, raw_round), ("kv tcp", kv_receiver, kv_round)):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=receiver, args=(theirs, frame_bytes), daemon=True)
            process.start()
            address = ours.recv()
            if receiver is raw_receiver:
                ours.send(total)
            rates = rounds(address, frame_bytes, total)
            medians[name] = statistics.median(rates)
            if receiver is kv_receiver:
                ours.send("end")
            process.join(10)
            shown = " ".join(f"{rate:.2f}" for rate in rates)
            print(f"{name:>10}  frames of {frame_mib:g} MiB  median {medians[name]:.2f} GB/s  ({shown})")
        print(f"{'ratio':>10}  {medians['kv tcp'] / medians['raw socket']:.2f}")


if __name__ == "__main__":
    main()
