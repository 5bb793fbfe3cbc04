"""Many nodes at once, with a bound; every node gets its own outcome, in the order asked."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pdctl.inventory import Host
from pdctl.reach.local import run_local
from pdctl.reach.outcome import Outcome
from pdctl.reach.ssh import run_ssh
from pdctl.reach.ssh_target import ssh_target

AT_ONCE = 32


def run_everywhere(
    hosts: Sequence[Host],
    script_for: Callable[[Host], str],
    *,
    connect_s: float,
    deadline_s: float,
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """done: called from worker threads as each node is through."""

    def one(host: Host) -> Outcome:
        outcome = run_on(host, script_for(host), connect_s=connect_s, deadline_s=deadline_s)
        done(outcome)
        return outcome

    with ThreadPoolExecutor(max_workers=max(1, min(AT_ONCE, len(hosts)))) as pool:
        return list(pool.map(one, hosts))


def run_on(
    host: Host, script: str, *, connect_s: float, deadline_s: float, heard: Callable[[str], None] | None = None
) -> Outcome:
    """One node. heard: is told all that it printed so far, whenever there is more, while it runs."""
    if host.connection == "local":
        return run_local(host.name, script, deadline_s, heard=heard)
    return run_ssh(host.name, ssh_target(host), script, connect_s=connect_s, deadline_s=deadline_s, heard=heard)
