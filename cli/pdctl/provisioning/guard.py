"""The controller's side of the operator lock: what it says, whose locks may be taken over, and how it is freed after all."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pdctl.inventory import Host
from pdctl.provisioning.operator import operator
from pdctl.provisioning.options import Options
from pdctl.provisioning.outcome import HostResult
from pdctl.provisioning.runs import Run

# Locks of older runs are told by their age.
MOST_KNOWN = 200
_FREED = "pdctl-freed"
_DEADLINE_S = 20.0


def guard_variables(options: Options, over: Iterable[Run]) -> Mapping[str, Any]:
    """What the role `guard` gets. over: runs that are known to have ended or to have been killed."""
    user, machine = operator()
    return {
        "guard_holder": {"by": user, "from": machine, "command": options.command},
        "guard_dead": [run.id for run in over],
        "guard_break_lock": options.break_lock,
        "guard_while_serving": options.while_serving,
    }


def free_locks(
    run: str, hosts: Iterable[tuple[Host, HostResult]], options: Options, warn: Callable[[str], None]
) -> None:
    """Of hosts that the run ended on before it came to that: one SSH exec each. What stays is warned of."""
    from pdctl.reach.fleet import run_everywhere
    from pdctl.reach.outcome import Reached
    from pdctl.reach.root import as_root
    from pdctl.reach.sudo import sudo_password

    def script(host: Host) -> str:
        return as_root(_free(run), sudo_password(host, options.become_password))

    connect_s = float(options.connect_timeout_s)
    locked = {host.name: (host, result) for host, result in hosts if result.locked}
    reachable = [host for host, result in locked.values() if result.unreachable is None]
    outcomes = run_everywhere(reachable, script, connect_s=connect_s, deadline_s=connect_s + _DEADLINE_S)
    for outcome in outcomes:
        if isinstance(outcome, Reached) and _FREED in outcome.output:
            locked.pop(outcome.node)[1].locked = False
    for name in locked:
        warn(f"{name} keeps the lock of run {run}: pdctl takes it over on this machine, elsewhere `--break-lock` does")


def _free(run: str) -> str:
    return f"""cd /var/lib/pdctl && exec 9>.lock && flock -w 10 9 || exit 1
if grep -qsF '"run": "{run}"' lock.json; then rm -f lock.json; fi
echo {_FREED}
"""
