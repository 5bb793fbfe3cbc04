"""Runs a plan of active tests: round after round, the pairs of a round at once, the tests of a pair one after the other."""

import os
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pdchecks.active.commands import LISTENING, Line
from pdchecks.active.plan import Meeting, Plan, Talk
from pdchecks.collector import script_of
from pdchecks.evidence import Block, own_blocks
from pdctl.inventory import Host
from pdctl.reach.fleet import AT_ONCE, run_on
from pdctl.reach.outcome import Outcome, Unreached

# Of one command on a node: three pings at two seconds each, a test of some seconds, a Python that starts.
_COMMAND_S = 60
_TOTAL_S = 120
# From when it is asked until a listener says that it listens, the connection to its node not counted.
_LISTENS_S = 20.0
_SECRET_BYTES = 32
_HEARD = re.compile(rf"^{LISTENING}(?P<address>\S+)$", re.MULTILINE)

Found = list[tuple[str, Block]]


def run(plan: Plan, hosts: Mapping[str, Host], *, connect_s: float) -> Found:
    """(node, block) of every test, the ones that could not run with the reason."""
    found = list(plan.left_out)
    for number, meetings in enumerate(plan.rounds, 1):
        print(f"round {number} of {len(plan.rounds)}: {_names(meetings)}", file=sys.stderr, flush=True)
        with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(meetings))) as pool:
            for blocks in pool.map(lambda meeting: _meet(meeting, hosts, connect_s), meetings):
                found += blocks
    return found


def _names(meetings: Sequence[Meeting]) -> str:
    named = [" and ".join(meeting.nodes) for meeting in meetings[:6]]
    return ", ".join(named) + (f" and {len(meetings) - 6} pairs more" if len(meetings) > 6 else "")


def _meet(meeting: Meeting, hosts: Mapping[str, Host], connect_s: float) -> Found:
    found: Found = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        asked = [(node, lines) for node, lines in meeting.probes.items() if lines]
        for blocks in pool.map(lambda one: _run(hosts[one[0]], one[1], connect_s), asked):
            found += blocks
    for talk in meeting.talks:
        found += _talk(talk, hosts, connect_s)
    return found


def _run(
    host: Host, lines: Sequence[Line], connect_s: float, secret: str = "", heard: Callable[[str], None] | None = None
) -> Found:
    total_s = min(_TOTAL_S, _COMMAND_S * len(lines))
    script = script_of([line.script(secret) for line in lines], _COMMAND_S, total_s)
    if host.connection == "local":
        script = f"PATH={_own_programs()}\n{script}"
    outcome = run_on(host, script, connect_s=connect_s, deadline_s=connect_s + total_s + _LISTENS_S, heard=heard)
    return [(host.name, block) for block in _blocks(outcome, lines)]


def _own_programs() -> str:
    """This host's pdctl is the one that runs, wherever it is installed."""
    from shlex import quote

    return quote(os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]))


def _blocks(outcome: Outcome, lines: Sequence[Line]) -> Iterator[Block]:
    seen = {block.command: block for block in own_blocks(outcome.output)}
    reason = outcome.reason if isinstance(outcome, Unreached) else "the node printed nothing of it"
    for line in lines:
        yield seen.get(line.label) or Block(line.label, 124, f"pdctl: {reason}")


def _talk(talk: Talk, hosts: Mapping[str, Host], connect_s: float) -> Found:
    """The secret is of this test alone, and goes to both ends inside of the connections to them."""
    secret = secrets.token_hex(_SECRET_BYTES)
    address, ready = "", threading.Event()

    def heard(text: str) -> None:
        nonlocal address
        if said := _HEARD.search(text):
            address = said["address"]
            ready.set()

    with ThreadPoolExecutor(max_workers=1) as pool:
        served = pool.submit(_run, hosts[talk.server], [talk.serve], connect_s, secret, heard)
        served.add_done_callback(lambda _: ready.set())
        ready.wait(connect_s + _LISTENS_S)
        if address:
            asked = _run(hosts[talk.client], [talk.ask.at(address)], connect_s, secret)
            return [*asked, *served.result()]
    (_, block), *_ = served.result()
    why = block.output.removeprefix("pdctl: ").split("\n")[0] or "it ended before it listened"
    # Of two ends that never met one speaks: the one that asks.
    return [(talk.client, Block(talk.ask.at("ADDRESS").label, 124, f"pdctl: {talk.server} did not listen: {why}"))]
