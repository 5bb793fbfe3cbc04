"""Every check, in the order a person would look: the link first, then what travels on it, then the host.

This list is the table of contents. An ID is never reused.
"""

from pdchecks.check import Check
from pdchecks.checks import (
    base_reachable,
    engine_units,
    gpu_context,
    gpu_daemons,
    gpu_driver,
    gpu_ecc,
    gpu_memory,
    gpu_mode,
    gpu_query,
    gpu_xid,
    huge_pages,
    kernel_buffers,
    kv_handshake,
    kv_shape,
    locale_messages,
    locale_utf8,
    memlock,
    neighbour_table,
    nofile,
    package_backend,
    rail_filters,
    rdma_units,
    repo_bytes,
    target_python,
    time_sync,
    yum_wrapper,
)

CHECKS: tuple[Check, ...] = (
    memlock.CHECK,
    nofile.CHECK,
    huge_pages.CHECK,
    neighbour_table.CHECK,
    base_reachable.CHECK,
    kernel_buffers.CHECK,
    rail_filters.CHECK,
    rdma_units.CHECK,
    engine_units.CHECK,
    time_sync.CHECK,
    locale_utf8.CHECK,
    locale_messages.CHECK,
    repo_bytes.CHECK,
    yum_wrapper.CHECK,
    target_python.CHECK,
    package_backend.CHECK,
    gpu_driver.CHECK,
    gpu_daemons.CHECK,
    gpu_xid.CHECK,
    gpu_ecc.CHECK,
    gpu_mode.CHECK,
    gpu_memory.CHECK,
    gpu_context.CHECK,
    gpu_query.CHECK,
    kv_handshake.CHECK,
    kv_shape.CHECK,
)
BY_ID = {check.id: check for check in CHECKS}
