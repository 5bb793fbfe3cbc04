"""The collector: a POSIX-sh script that a node's `sh -s` reads from its standard input and that prints evidence."""

from importlib.resources import files
from shlex import quote

from pdchecks.policy import Policy

# A tool that answers at all answers within this; nvidia-smi without a persistence daemon takes the longest, about 5 s.
COMMAND_S = 10
TOTAL_S = 90
# Of the whole look at a node; the rest is for the connection and for what comes back.
_SHARE_OF_DEADLINE = 0.75
# mlx5 reads its firmware's counters about once a second; ten of them tell a rate from a single event.
INTERVAL_S = 10
MAX_INTERVAL_S = 60
_MOST_BYTES = 131_072

# Modules whose accepted parameters are compared with modprobe.d, whatever the policy loads.
_MODULES = ("mlx5_core", "mlx5_ib", "ib_core", "rdma_cm", "nvidia", "nvidia_peermem")
# Units that a node may have besides the policy's: the vendor's stack, what may overwrite QoS, GPU daemons, our engines.
_UNITS = (
    "rdma.service",
    "openibd.service",
    "lldpad.service",
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "nvidia-imex.service",
    "pdctl-*.service",
)


def script(policy: Policy, interval_s: int = INTERVAL_S, deadline_s: float = 0) -> str:
    """The script for one node: its parameters as shell variables, then `collect.sh`.

    interval_s: seconds between the two readings of the counters, at most `MAX_INTERVAL_S`; 0 for one reading.
    deadline_s: of the whole look; a longer one than usual gives a slow node's commands more time, in proportion.
    """
    total_s = max(TOTAL_S, int(deadline_s * _SHARE_OF_DEADLINE))
    values = policy.values
    units = {unit for family in values.services.get("rdma", {}).values() for unit in family.units}
    parameters = {
        "command_s": str(COMMAND_S * total_s // TOTAL_S),
        "total_s": str(total_s),
        "interval_s": str(min(max(0, interval_s), MAX_INTERVAL_S)),
        "most": str(_MOST_BYTES),
        "locales": " ".join(values.locale.candidates),
        "sysctl_paths": " ".join(proc_path(key) for key, value in values.sysctl.items() if value is not None),
        "modules": " ".join(dict.fromkeys((*values.modules.load, *_MODULES))),
        "units": " ".join((*sorted(units), *_UNITS)),
    }
    head = "".join(f"{name}={quote(value)}\n" for name, value in parameters.items())
    return head + files("pdchecks").joinpath("collect.sh").read_text(encoding="utf-8")


def proc_path(key: str) -> str:
    """The file of a sysctl key; sysctl.d(5): where the first separator is a slash, dots belong to names (eth0.100)."""
    separators = [character for character in key if character in "./"]
    path = key if separators[:1] == ["/"] else key.translate(str.maketrans("./", "/."))
    return f"/proc/sys/{path}"
