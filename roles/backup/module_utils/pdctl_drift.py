"""Whether a node is still as the last run left it. `pdctl provision --drift` sends this to the node, with what it imports."""

import re
import shutil
import subprocess

from ansible.module_utils import pdctl_live as live
from ansible.module_utils import pdctl_state as state

KEYS = ("paths", "sysctls", "modules", "units", "users", "fabric", "packages")


def managed_digest(declared, run_command):
    """Of all that the roles declare, as it is now. declared: KEYS -> names, with `*` where the roles have one."""
    paths, keys = state.expanded(declared["paths"], declared["sysctls"])
    look = state.look(paths, keys, declared["modules"])
    named = live.names(declared["units"], declared["users"], fabric=declared["fabric"])
    look["live"] = live.look(run_command, named)
    there = set(state.packages(run_command, shutil.which)) if declared["packages"] else set()
    # libibverbs1:amd64, rdma-core.x86_64
    there |= {re.sub(r"[:.]\w+$", "", name) for name in there}
    return state.digest([state.items(look), {name: name in there for name in declared["packages"]}])


def drift():
    """What the last run left word of, and the digest of what it declared as it is now; {} where there is no word."""
    left = state.document(state.CONVERGED)
    if left is None:
        return {}
    word = {key: left[key] for key in ("run", "salt", "basis", "digest")}
    return dict(word, now=managed_digest(left["declared"], _captured))


def _captured(argv):
    pipe = subprocess.PIPE
    ended = subprocess.run(argv, stdout=pipe, stderr=pipe, check=False, timeout=60)
    return ended.returncode, ended.stdout.decode("utf-8", "replace"), ended.stderr.decode("utf-8", "replace")
