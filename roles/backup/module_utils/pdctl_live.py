"""State of a node that is neither file nor kernel parameter: systemd units, accounts, and settings of the fabric's interfaces.
Looked at, and put back by commands.

A name says what it is of: `unit chrony.service`, `user pdctl`, `mtu eth0`. A state is one line of text: `enabled active`, `present`,
`absent`. The firmware of the cards is only looked at: nothing puts it back.
"""

import pwd
import shutil
from pathlib import Path

from ansible.module_utils import pdctl_settings as settings

ABSENT = "absent"
_RUNNING = ("active", "activating", "reloading")
# States that `systemctl enable` and `disable` do not make: a unit without an [Install] section, or one made by a generator.
_NOT_OURS = ("static", "generated", "transient", "indirect", "alias", "linked", "linked-runtime", "enabled-runtime", "")


INFINIBAND = Path("/sys/class/infiniband")


def names(units, users, firmware=(), fabric=()):
    """fabric: what roles may set on interfaces: mappings area, rails, unused."""
    kinds = (("unit", units), ("user", users), ("firmware", firmware))
    return [*(f"{kind} {each}" for kind, several in kinds for each in several), *settings.names(fabric)]


def of_fabric(name):
    """Whether it is a live setting of a rail, which can cut the node off."""
    return name.partition(" ")[0] not in _LOOKS


def stays(name):
    """Whether nothing puts it back."""
    return name.startswith("firmware ")


def look(run_command, wanted):
    """Name -> state."""
    return {name: _look(run_command, *name.partition(" ")[::2]) for name in wanted}


def _look(run_command, kind, of):
    return _LOOKS[kind](run_command, of) if kind in _LOOKS else settings.read(f"{kind} {of}")


def differing(former, latter):
    """Names that are not the same in two looks; a record of an older pdctl has none."""
    now = latter.get("live") or {}
    return [name for name, value in (former.get("live") or {}).items() if now.get(name, value) != value]


def let_go(run_command, name, wanted):
    """Before the files go back: a unit that was not running, or not there, stops while its file is still there."""
    kind, _space, of = name.partition(" ")
    if kind == "unit" and not wanted.endswith(" active"):
        _systemctl(run_command, "stop", of)
    if kind == "unit" and wanted == ABSENT:
        _systemctl(run_command, "disable", of)


def put_back(run_command, name, wanted):
    """A unit or an account, after the files are back. None, or why it is not as wanted."""
    kind, _space, of = name.partition(" ")
    said = (_put_unit_back if kind == "unit" else _put_user_back)(run_command, of, wanted)
    now = look(run_command, [name])[name]
    if now == wanted or (kind == "unit" and wanted == ABSENT and now == "disabled inactive"):
        # What a package brought stays with it.
        return None
    return f"is {now}{f': {said}' if said else ''}"


def _look_at_unit(run_command, unit):
    if not shutil.which("systemctl"):
        return ABSENT
    code, printed, _said = run_command(
        ["systemctl", "show", "--property=LoadState,UnitFileState,ActiveState", "--", unit]
    )
    state = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    if code != 0 or state.get("LoadState") in (None, "not-found"):
        return ABSENT
    running = "active" if state.get("ActiveState") in _RUNNING else "inactive"
    return f"{state.get('UnitFileState', '')} {running}"


def _look_at_user(_run_command, user):
    try:
        pwd.getpwnam(user)
    except KeyError:
        return ABSENT
    return "present"


def _look_at_firmware(_run_command, _cards):
    found = sorted(INFINIBAND.glob("*/fw_ver")) if INFINIBAND.is_dir() else []
    return ", ".join(f"{path.parent.name} {path.read_text(encoding='utf-8').strip()}" for path in found) or ABSENT


_LOOKS = {"unit": _look_at_unit, "user": _look_at_user, "firmware": _look_at_firmware}


def _put_unit_back(run_command, unit, wanted):
    if wanted == ABSENT:
        return ""
    at_boot, _space, running = wanted.rpartition(" ")
    said = []
    if at_boot not in _NOT_OURS:
        if at_boot != "masked":
            said.append(_systemctl(run_command, "unmask", unit))
        verb = {"enabled": "enable", "masked": "mask"}.get(at_boot, "disable")
        said.append(_systemctl(run_command, verb, unit))
    said.append(_systemctl(run_command, "start" if running == "active" else "stop", unit))
    return "; ".join(filter(None, said))


def _put_user_back(run_command, user, wanted):
    if wanted != ABSENT:
        return "the account is gone: its number and files cannot be made again"
    said = []
    for argv in (["userdel", user], ["groupdel", user]):
        code, _printed, error = run_command(argv)
        # userdel takes the group of the same name along, mostly.
        if code != 0 and argv[0] == "userdel":
            said.append(f"userdel: exit code {code}: {error.strip()}")
    return "; ".join(said)


def _systemctl(run_command, verb, unit):
    """ "" or what it said."""
    code, _printed, said = run_command(["systemctl", "--quiet", verb, "--", unit])
    return f"systemctl {verb}: exit code {code}: {said.strip()}" if code != 0 else ""
