"""RoCE v2 arithmetic of the kernel: MTUs and lossless buffers."""

# What one RoCE packet adds to its payload, at most: GRH 40, UDP 8, BTH 12, XRC 4, atomic header 28, ICRC 4 bytes;
# linux include/rdma/ib_verbs.h, iboe_get_mtu().
HEADER_BYTES = 40 + 8 + 12 + 4 + 28 + 4
# enum ib_mtu of the InfiniBand specification: powers of two from 256 bytes, five of them.
PATH_MTUS = tuple(256 << step for step in range(5))


def path_mtu(netdev_mtu: int) -> int:
    """The RoCE path MTU (bytes) that an interface of `netdev_mtu` gives; 0 where it is too small for any."""
    return max((mtu for mtu in PATH_MTUS if mtu + HEADER_BYTES <= netdev_mtu), default=0)


def netdev_mtu_for(path: int) -> int:
    """The smallest netdev MTU (bytes) that gives the path MTU."""
    return path + HEADER_BYTES


def xoff_bytes(speed_mbps: int, cable_m: int, mtu: int) -> int:
    """Bytes that still arrive after a pause was sent; linux mlx5 en/port_buffer.c, calculate_xoff()."""
    return int((301 + 2.16 * cable_m) * max(speed_mbps, 40_000) / 1000 + 2.72 * mtu)


def traffic_class(dscp: int) -> int:
    """The byte of the IP header that carries the DSCP and says that the sender can be slowed: ECT(0), RFC 3168."""
    return dscp << 2 | 2
