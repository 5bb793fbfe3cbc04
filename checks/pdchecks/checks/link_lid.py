"""LIDs: InfiniBand ports need one, Ethernet ports have none worth a look."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.fabric import ports
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

# rdma-core infiniband/umad and the InfiniBand specification: 0 and the permissive LID name no port.
_NO_LID = (0, 0xFFFF)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for port in ports(node):
        if isinstance(port.lid, Unknown) or isinstance(port.layer, Unknown):
            continue
        if port.layer != "InfiniBand":
            summary = f"LID is {port.lid}; a RoCE port is addressed by its GIDs and needs no LID"
            yield Verdict(Status.PASS, port.name, summary, quotes=port.quotes)
        elif port.lid not in _NO_LID:
            yield Verdict(Status.PASS, port.name, f"LID is {port.lid}", quotes=port.quotes)
        elif port.active or port.state == "INIT":
            yield Verdict(
                Status.FAIL,
                port.name,
                f"InfiniBand port in state {port.state} has LID {port.lid}: nobody can reach it",
                "No subnet manager gave the port an address.",
                port.quotes,
                ("sminfo", f"ibstat {port.device} {port.port}"),
                Remedy("Start a subnet manager in this fabric, on a switch or with opensm."),
            )


CHECK = NodeCheck(
    id="PD-LINK-003",
    topic="link.lid",
    title="InfiniBand port without a LID",
    severity=Severity.CRITICAL,
    tools=("ibstat", "ibv_devinfo", "infiniband"),
    sources=("rdma-core infiniband-diags/ibstat.c", "InfiniBand Architecture Specification 4.1.1"),
    need=Need.RDMA,
    judge=judge,
)
