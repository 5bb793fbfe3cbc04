"""Soft RoCE (rdma_rxe) and soft iWARP (siw) on a machine's data card, and perftest between two machines."""

import re
import subprocess
from dataclasses import dataclass

from tests.lab.vm.machine import Card, VirtualMachine

RXE = "rxe0"
# The IPv4-mapped GID: entry 0 is the link-local one, and soft RoCE has RoCE v2 entries only.
GID_INDEX = 1
_PERFTEST_DEADLINE_S = 300.0


@dataclass(frozen=True)
class Bandwidth:
    """One row of perftest: message size in bytes, iterations, mean bandwidth in MB/s."""

    message_bytes: int
    iterations: int
    mb_per_s: float


def add_rxe(vm: VirtualMachine, card: Card = Card.DATA) -> str:
    """The name of a soft RoCE device on the card."""
    vm.ssh(f"modprobe rdma_rxe && rdma link add {RXE} type rxe netdev {card.device}")
    return RXE


def port(vm: VirtualMachine, device: str = RXE) -> dict[str, str]:
    """What ibv_devinfo says of port 1, key to text: state, active_mtu, link_layer, ..."""
    lines = vm.ssh(f"ibv_devinfo -d {device}").splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines) if value}


def write_bandwidth(
    server: VirtualMachine, client: VirtualMachine, *, message_bytes: int = 65536, iterations: int = 200, tos: int = 0
) -> Bandwidth:
    """RDMA writes from client to server by ib_write_bw, both having `RXE`. tos: the IP header's byte, DSCP times four."""
    options = f"ib_write_bw -d {RXE} -x {GID_INDEX} -s {message_bytes} -n {iterations} -F --tclass={tos}"
    waiting = server.start(f"timeout {_PERFTEST_DEADLINE_S:.0f} {options}")
    try:
        server.ssh("timeout 60 sh -c 'until ss -Hltn sport = 18515 | grep -q .; do sleep 0.2; done'")
        said = client.ssh(
            f"timeout {_PERFTEST_DEADLINE_S:.0f} {options} {server.data_address}", timeout_s=_PERFTEST_DEADLINE_S + 10
        )
        waiting.wait(timeout=_PERFTEST_DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"ib_write_bw between {client.name} and {server.name} did not end") from error
    finally:
        waiting.kill()
        waiting.wait()
    row = re.search(rf"^\s*{message_bytes}\s+(\d+)\s+[\d.]+\s+([\d.]+)", said, re.MULTILINE)
    if row is None:
        raise RuntimeError(f"no result in what ib_write_bw printed:\n{said}")
    return Bandwidth(message_bytes, int(row[1]), float(row[2]))
