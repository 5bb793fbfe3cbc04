"""Which fault brings which about: the table by which findings are grouped under their root cause.

An edge says that where both are found on one node (or across the fabric), the second is no fault of its own. The edges
form no circle. Sources: the documents of the checks named (`pdctl explain ID`).
"""

from dataclasses import dataclass

_LENGTH = ("length error", "remote invalid request", "local_length_error", "remote_invalid_request")
_LOST = ("retry counter exceeded",)
_PROTECTION = ("protection error", "access error", "access_errors")
_MEMORY = ("memory", "ENOMEM")
_TIMEOUT = ("timed out", "ETIMEDOUT", "110")


@dataclass(frozen=True, slots=True)
class Edge:
    """words: the effect must say one of them, where a check finds faults of several causes; none: any.

    fabric: the cause may stand on another node than the effect. blinds: the effect may also be `unknown`.
    """

    cause: str
    effect: str
    why: str
    words: tuple[str, ...] = ()
    fabric: bool = False
    blinds: bool = False


def _edges(cause: str, why: str, *effects: str, fabric: bool = False, blinds: bool = False) -> tuple[Edge, ...]:
    return tuple(Edge(cause, effect, why, fabric=fabric, blinds=blinds) for effect in effects)


# Of several causes of one effect the one that stands first here is taken for it.
EXPLAINS: tuple[Edge, ...] = (
    *_edges("PD-FW-003", "a driver that does not know its firmware cannot start the card", "PD-DRV-001", "PD-MLX-001"),
    *_edges("PD-FW-002", "the newer image is stored, and runs only after a reset", "PD-FW-001"),
    *_edges("PD-DRV-001", "a card that its driver could not start has no RDMA device", "PD-OFF-001", "PD-SVC-001"),
    *_edges("PD-LINK-001", "a port that is not active carries nothing", "PD-LINK-003", "PD-LINK-004", "PD-GID-002"),
    *_edges("PD-LINK-001", "no queue pair gets through a port that is not active", "PD-RDMA-001", "PD-OFF-001"),
    Edge("PD-LINK-001", "PD-RDMA-002", "nothing is answered through a port that is not active", _LOST, fabric=True),
    *_edges("PD-PCIE-005", "the PCIe link to the card fails", "PD-MLX-002", "PD-DRV-001"),
    *_edges("PD-GPU-007", "a driver that does not answer starts no program", "PD-GPU-009"),
    Edge("PD-GPU-008", "PD-GPU-009", "CUDA waits for the fabric manager", ("not yet initialized", "fabric manager")),
    *_edges("PD-GPU-006", "the program met the bad memory", "PD-GPU-009"),
    Edge("PD-PCIE-005", "PD-GPU-005", "the PCIe link to the GPU fails", ("fallen off the bus",)),
    *_edges("PD-MLX-002", "a card whose firmware stopped sends nothing", "PD-LINK-006", "PD-LINK-001", "PD-RDMA-001"),
    *_edges("PD-MLX-002", "a card whose firmware stopped refuses every command", "PD-MLX-001"),
    Edge("PD-MLX-002", "PD-RDMA-002", "a card whose firmware stopped answers nothing", _LOST, fabric=True),
    *_edges("PD-MEM-001", "the kernel killed the engine", "PD-SVC-002"),
    *_edges("PD-DISK-001", "the engine cannot read its model or write its log", "PD-SVC-002"),
    *_edges("PD-LINK-005", "packets in flight are lost whenever the link goes", "PD-RDMA-003"),
    Edge("PD-LINK-005", "PD-RDMA-002", "a link that goes down outlasts every retry", _LOST, fabric=True),
    *_edges("PD-MTU-001", "RoCE takes the path MTU from the interface", "PD-MTU-002", "PD-MTU-003", fabric=True),
    *_edges("PD-MTU-001", "packets leave by that interface", "PD-MTU-004"),
    *_edges("PD-MTU-004", "what does not fit is lost on the way", "PD-KV-003", "PD-PERF-002", "PD-RDMA-003"),
    Edge("PD-MTU-004", "PD-RDMA-002", "a packet that does not fit is lost, and all its repetitions", _LOST),
    *_edges("PD-MTU-002", "the peer's port has the larger one", "PD-MTU-003", fabric=True),
    *(
        Edge(cause, "PD-RDMA-002", "a packet longer than the receiver's path MTU is refused", _LENGTH, fabric=True)
        for cause in ("PD-MTU-003", "PD-MTU-001", "PD-MTU-002")
    ),
    *_edges("PD-GID-002", "indices follow the order of the table", "PD-GID-001", "PD-GID-003", "PD-GID-004"),
    *_edges("PD-GID-001", "the peer cannot be reached from that GID", "PD-RDMA-001"),
    Edge("PD-GID-001", "PD-RDMA-002", "packets from that GID never arrive", _LOST, fabric=True),
    *_edges("PD-GID-004", "one side uses an index that is another GID there", "PD-RDMA-001", fabric=True),
    Edge("PD-GID-004", "PD-RDMA-002", "one side uses an index that is another GID there", _LOST, fabric=True),
    *_edges("PD-GID-002", "the peer has no RoCE v2 GID to answer from", "PD-GID-005", fabric=True),
    *_edges("PD-GID-005", "there is no way from rail to rail", "PD-RDMA-001", fabric=True),
    Edge("PD-GID-005", "PD-RDMA-002", "there is no way from rail to rail", _LOST, fabric=True),
    *_edges("PD-SYSCTL-002", "without these settings every rail answers for the others", "PD-ROUTE-002"),
    *_edges("PD-ROUTE-002", "answers come by another rail than the question", "PD-ROUTE-001"),
    *_edges("PD-ROUTE-001", "there is no way from this rail to the peer", "PD-RDMA-001"),
    Edge("PD-ROUTE-001", "PD-RDMA-002", "packets leave by a rail that does not reach the peer", _LOST),
    Edge("PD-NEIGH-001", "PD-RDMA-001", "the peer's address has no place in the full table", _TIMEOUT),
    *_edges("PD-QOS-006", "the switch or lldpad overwrites what was set", "PD-QOS-001", "PD-QOS-002"),
    *_edges("PD-FLOW-001", "802.3x pause and PFC exclude each other", "PD-QOS-002", "PD-QOS-004"),
    *_edges("PD-QOS-001", "packets are classified by a field that they do not carry", "PD-QOS-003"),
    *_edges("PD-QOS-002", "without PFC the class drops what it cannot hold", "PD-QOS-003", "PD-QOS-005"),
    *(
        edge
        for cause in ("PD-QOS-001", "PD-QOS-002", "PD-QOS-003", "PD-FLOW-001", "PD-ECN-001", "PD-ECN-002")
        for edge in _edges(cause, "the other node is set as the policy says", "PD-QOS-008")
    ),
    *_edges("PD-QOS-008", "what one end sends as lossless the other does not treat so", "PD-RDMA-003", fabric=True),
    *_edges("PD-QOS-007", "what arrives after the pause finds no room", "PD-QOS-005"),
    *(
        edge
        for cause in ("PD-QOS-003", "PD-QOS-002", "PD-QOS-001", "PD-QOS-005")
        for edge in (
            Edge(cause, "PD-RDMA-003", "what a lossy class drops is sent again", fabric=True),
            Edge(cause, "PD-RDMA-002", "a lossy class drops a packet and all its repetitions", _LOST, fabric=True),
        )
    ),
    Edge("PD-RDMA-003", "PD-RDMA-002", "the path loses packets, in the end all repetitions of one", _LOST),
    *_edges("PD-ECN-001", "marks that nobody answers slow no sender", "PD-ECN-003", "PD-QOS-004", fabric=True),
    *_edges("PD-ECN-002", "a sender that ignores notifications is stopped by pause", "PD-QOS-004", fabric=True),
    *_edges("PD-ECN-002", "a sender whose reaction point is off counts none", "PD-ECN-005", fabric=True),
    *_edges("PD-ECN-005", "a sender that is told nothing is stopped by pause", "PD-QOS-004", fabric=True),
    *_edges("PD-ECN-004", "a switch that does not mark can only pause", "PD-QOS-004", fabric=True),
    *_edges("PD-PCIE-001", "a slow PCIe link makes the receiver push back", "PD-QOS-004", "PD-RDMA-004"),
    *_edges("PD-GDR-001", "the card has no way to GPU memory", "PD-GDR-002"),
    Edge("PD-GDR-001", "PD-RDMA-002", "the card may not touch the GPU memory that it was given", _PROTECTION),
    Edge("PD-GDR-002", "PD-RDMA-002", "the card may not touch the GPU memory that it was given", _PROTECTION),
    Edge("PD-LIMIT-001", "PD-GDR-002", "regions must be locked in memory", _MEMORY),
    *_edges("PD-SVC-001", "without its modules there is no verbs device to use", "PD-OFF-001"),
    *(
        Edge(cause, test, "the test cannot be faster than that")
        for test in ("PD-PERF-001", "PD-PERF-002")
        for cause in (
            *("PD-LINK-004", "PD-PCIE-001", "PD-OFF-001", "PD-GDR-001", "PD-MTU-001", "PD-MTU-002", "PD-QOS-004"),
            *("PD-RDMA-003", "PD-PCIE-003", "PD-PCIE-004"),
        )
    ),
    *_edges("PD-GPU-006", "the driver reports memory errors as XID", "PD-GPU-005"),
    *_edges("PD-GPU-005", "a GPU that fell off its bus stops the driver", "PD-GPU-007"),
    *_edges("PD-GPU-008", "the GPUs cannot be initialised without it", "PD-GPU-007"),
    *_edges(
        "PD-GPU-007",
        "every query goes through that driver",
        *("PD-GPU-001", "PD-GPU-002", "PD-GPU-003", "PD-GPU-004", "PD-GDR-001"),
        blinds=True,
    ),
    *_edges("PD-GPU-003", "the memory is held by that context", "PD-GPU-001"),
    *(
        Edge(cause, "PD-SVC-002", "an engine cannot start on such a GPU")
        for cause in ("PD-GPU-008", "PD-GPU-007", "PD-GPU-005", "PD-GPU-006")
    ),
    *_edges("PD-KV-001", "an engine whose pair was refused is never ready", "PD-SVC-003", fabric=True),
    *_edges("PD-KV-002", "an engine that refuses the KV is never ready", "PD-SVC-003", fabric=True),
    *_edges("PD-SVC-002", "the engine is not there to answer", "PD-SVC-003"),
    *(
        Edge(cause, "PD-KV-005", why, fabric=True)
        for cause, why in (
            ("PD-LINK-001", "KV cannot cross a port that is not active"),
            ("PD-LINK-005", "a transfer in flight breaks off whenever the link goes"),
            ("PD-MTU-004", "frames that do not fit are lost on the way"),
            ("PD-RDMA-002", "a transfer whose work request failed is a failed transfer"),
            ("PD-KV-003", "what stops the test's frames stops the engine's"),
            ("PD-SVC-002", "the other side was not there"),
            ("PD-SVC-003", "the other side was not there"),
        )
    ),
    *_edges("PD-KV-004", "blocks that are held for nobody leave less room", "PD-SVC-004"),
    *_edges("PD-GPU-010", "a GPU that is slowed down computes fewer prompts", "PD-SVC-004"),
    *_edges("PD-YUM-002", "without the wrapper yum runs in whatever locale the session has", "PD-YUM-001"),
    *_edges("PD-LOCALE-001", "the wrapper has no UTF-8 locale to choose", "PD-YUM-002"),
    *_edges("PD-ANSIBLE-001", "the bindings are those of a Python that Ansible no longer takes", "PD-ANSIBLE-002"),
)
