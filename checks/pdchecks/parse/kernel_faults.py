"""Lines of the kernel log by which hardware and kernel say that something broke, with the source file that prints each."""

import re

_MLX5 = r"mlx5_core (?P<device>[0-9a-f]{0,4}:?[0-9a-f]{2}:[0-9a-f.]{2,5}): (?:\w{2,40}:(?:\d{1,5}:)?(?:\(pid \d{1,9}\):)? )?"
_PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"

# kind -> pattern, as in `kernel_log.py`.
FAULTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # drivers/net/ethernet/mellanox/mlx5/core/health.c
    (
        "card-fatal",
        re.compile(
            _MLX5
            + r"(?P<detail>Fatal error \d{1,3} detected|device's health compromised.{0,40}"
            + r"|synd 0x(?!0+:)[0-9a-f]{1,4}: [a-zA-Z ]{3,40}"
            + r"|Health issue observed, [a-zA-Z ]{3,40}, severity\([0-3]\) [A-Z]{3,10}"
            + r"|health recovery (?:flow aborted|failed).{0,60}|health recovery had a failure.{0,40})"
        ),
    ),
    # drivers/net/ethernet/mellanox/mlx5/core/events.c, temp_warn
    ("card-hot", re.compile(_MLX5 + r"(?P<detail>High temperature on sensors with bit set.{0,60})")),
    ("card-recovered", re.compile(_MLX5 + r"(?P<detail>health recovery succeeded)", re.IGNORECASE)),
    # drivers/net/ethernet/mellanox/mlx5/core/cmd.c, wait_func
    (
        "command-timeout",
        re.compile(_MLX5 + r"(?P<detail>(?:cmd\[\d{1,3}\]: )?[A-Z0-9_]{3,40}\(0x[0-9a-f]{1,4}\).{0,20}timeout.{0,60})"),
    ),
    ("command-timeout", re.compile(_MLX5 + r"(?P<detail>mlx5_cmd\w{0,20}.{0,60}(?:timeout|timed out).{0,40})")),
    # drivers/pci/pcie/aer.c, aer_isr_one_error and aer_print_error, the wordings before and after 6.16
    (
        "pcie-error",
        re.compile(
            rf"AER: (?:Multiple )?(?P<detail>Uncorrect(?:ed|able) \((?:Non-)?Fatal\)|Correct(?:ed|able)) error "
            rf"(?:message )?received(?: from|:) (?P<device>{_PCI})"
        ),
    ),
    (
        "pcie-bus-error",
        re.compile(
            rf"(?P<device>{_PCI}): (?:AER: )?PCIe Bus Error: severity=(?P<detail>"
            r"Uncorrect(?:ed|able) \((?:Non-)?Fatal\)|Correct(?:ed|able)), type=[A-Za-z ]{3,30}"
        ),
    ),
    # net/sched/sch_generic.c, dev_watchdog: the wordings before 6.4, in 6.4, and since (netdev_crit: driver, bus, device)
    (
        "transmit-timeout",
        re.compile(
            r"NETDEV WATCHDOG: (?P<device>[\w.-]{1,15}) \((?P<driver>[\w-]{1,24})\): "
            r"(?P<detail>transmit queue \d{1,4} timed out.{0,20})"
        ),
    ),
    (
        "transmit-timeout",
        re.compile(
            r"(?P<device>[\w.-]{1,15}) \((?P<driver>[\w-]{1,24})\): NETDEV WATCHDOG: (?:CPU: \d{1,5}: )?"
            r"(?P<detail>transmit queue \d{1,4} timed out.{0,20})"
        ),
    ),
    (
        "transmit-timeout",
        re.compile(
            r"(?P<driver>[\w-]{1,24}) [\w:.@-]{3,40} (?P<device>[\w.-]{1,15}): NETDEV WATCHDOG: (?:CPU: \d{1,5}: )?"
            r"(?P<detail>transmit queue \d{1,4} timed out.{0,20})"
        ),
    ),
    # drivers/net/ethernet/mellanox/mlx5/core/en_main.c, mlx5e_tx_timeout
    (
        "transmit-timeout",
        re.compile(r"(?P<driver>mlx5_core) [0-9a-f:.]{7,14} (?P<device>[\w.-]{1,15}): (?P<detail>TX timeout detected)"),
    ),
    # mm/oom_kill.c, dump_oom_summary: whose control group the process stood in
    (
        "out-of-memory-group",
        re.compile(
            r"oom-kill:constraint=.{0,400}?,task_memcg=(?P<detail>[^,]{1,300}),task=(?P<device>[^,]{1,40}),pid="
        ),
    ),
    # mm/oom_kill.c, __oom_kill_process; before 4.19 it said Kill
    (
        "out-of-memory",
        re.compile(
            r"(?P<driver>Memory cgroup out|Out) of memory(?: \([a-z_ ]{1,40}\))?: "
            r"Kill(?:ed)? process \d{1,9} \((?P<device>[^)]{1,40})\)(?P<detail>.{0,60})"
        ),
    ),
    # fs/ext4/super.c; fs/xfs/xfs_message.c and xfs_fsops.c
    ("disk-error", re.compile(r"EXT4-fs error \(device (?P<device>[\w.-]{1,40})\): (?P<detail>.{1,120})")),
    (
        "disk-error",
        re.compile(r"EXT4-fs \((?P<device>[\w.-]{1,40})\): (?P<detail>Remounting filesystem read-only)"),
    ),
    (
        "disk-error",
        re.compile(
            r"XFS \((?P<device>[\w.-]{1,40})\): (?P<detail>(?:metadata I/O error|Metadata corruption detected"
            r"|Corruption (?:of in-memory data|detected)).{0,80})"
        ),
    ),
    # drivers/nvme/host/pci.c, nvme_timeout
    (
        "disk-error",
        re.compile(
            r"nvme (?P<device>nvme\d{1,3}): (?P<detail>I/O (?:tag )?\d{1,5} .{0,60}?timeout, (?:aborting|reset controller).{0,20}"
            r"|controller is down; will reset.{0,60})"
        ),
    ),
    # block/blk-core.c, blk_print_req_error and fs/buffer.c
    (
        "disk-error",
        re.compile(
            r"(?P<detail>(?:I/O|critical (?:medium|target)|protection) error), dev (?P<device>(?!sr\d|fd\d|loop\d)[\w-]{1,32}), sector \d"
        ),
    ),
    (
        "disk-error",
        re.compile(r"(?P<detail>Buffer I/O error) on dev(?:ice)? (?P<device>(?!sr\d|fd\d|loop\d)[\w-]{1,32}),"),
    ),
)
# Each pattern above needs one of these in its line.
NEEDED = (
    "Fatal error", "High temperature on", "health", "Health", "synd 0x", "timeout", "AER: ", "PCIe Bus Error", "NETDEV WATCHDOG", "of memory",
    "EXT4-fs", "XFS (", "oom-kill:", "TX timeout", "controller is down", " error, dev ", "Buffer I/O error", "mlx5_cmd",
)  # fmt: skip
