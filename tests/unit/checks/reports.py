"""Findings made by the doctor itself from a few lines of evidence."""

from pathlib import Path

from pdchecks.evidence import by_node, read_blocks
from pdchecks.finding import Finding
from pdchecks.policy import read_layer, resolve
from pdchecks.run import diagnose

POLICY = resolve([read_layer(Path(__file__).parents[3] / "roles" / "policy" / "files" / "policy.yml")])

# Formats: rdma-core ibv_devinfo; linux drivers/infiniband/hw/mlx5/qp.c; https://github.com/kvcache-ai/Mooncake/issues/3868
MTU_AND_ITS_ERRORS = """
=== cmd: decode-1: ibv_devinfo -d mlx5_0
=== rc: 0
hca_id:	mlx5_0
	transport:			InfiniBand (0)
	fw_ver:				28.43.1014
	vendor_part_id:			4129
	phys_port_cnt:			1
		port:	1
			state:			PORT_ACTIVE (4)
			max_mtu:		4096 (5)
			active_mtu:		1024 (3)
			sm_lid:			0
			port_lid:		0
			link_layer:		Ethernet
=== end
=== cmd: prefill-1: ibv_devinfo -d mlx5_0
=== rc: 0
hca_id:	mlx5_0
	transport:			InfiniBand (0)
	fw_ver:				28.43.1014
	vendor_part_id:			4129
	phys_port_cnt:			1
		port:	1
			state:			PORT_ACTIVE (4)
			max_mtu:		4096 (5)
			active_mtu:		4096 (5)
			sm_lid:			0
			port_lid:		0
			link_layer:		Ethernet
=== end
=== cmd: decode-1: dmesg
=== rc: 0
[ 4711.100001] mlx5_0/1: QP 1021 error: local length error (0x1 0x0 0x0)
=== end
"""


def findings(text: str) -> list[Finding]:
    return diagnose(by_node(read_blocks(text), "node-1"), lambda node: POLICY)
