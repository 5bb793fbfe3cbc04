"""Every check, in the order a person would look: the link first, then what travels on it, then the host.

This list is the table of contents. An ID is never reused.
"""

from pdchecks.check import Check
from pdchecks.checks import (
    gid_choice,
    gid_table,
    global_pause,
    link_flap,
    link_layer,
    link_lid,
    link_rate,
    link_state,
    mtu_active,
    mtu_netdev,
    mtu_pair,
    qos_buffer,
    qos_dcbx,
    qos_discards,
    qos_pause,
    qos_pfc,
    qos_prio,
    qos_trust,
    rdma_drops,
    rdma_retrans,
)

CHECKS: tuple[Check, ...] = (
    link_state.CHECK,
    link_layer.CHECK,
    link_lid.CHECK,
    link_rate.CHECK,
    link_flap.CHECK,
    mtu_netdev.CHECK,
    mtu_active.CHECK,
    mtu_pair.CHECK,
    gid_choice.CHECK,
    gid_table.CHECK,
    rdma_retrans.CHECK,
    rdma_drops.CHECK,
    qos_trust.CHECK,
    qos_pfc.CHECK,
    qos_prio.CHECK,
    qos_pause.CHECK,
    qos_discards.CHECK,
    qos_dcbx.CHECK,
    qos_buffer.CHECK,
    global_pause.CHECK,
)
BY_ID = {check.id: check for check in CHECKS}
