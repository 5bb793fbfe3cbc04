"""Judges what `look.sh` printed of a node, and what `id -u` did as root: empty, or one line that says what is wrong."""

import re

_FAMILIES = {
    "debian": "Debian",
    "ubuntu": "Debian",
    "rhel": "RedHat",
    "centos": "RedHat",
    "fedora": "RedHat",
    "rocky": "RedHat",
    "almalinux": "RedHat",
}
_MARK = "pdctl: "


def pdctl_unfit(printed, pythons, minimum_python, families, free_mib, free_inodes):
    """printed: stdout of look.sh, and whatever the login shell added. The gravest fault alone: the others may follow from it."""
    said = _said(printed)
    if not any(word == "begin" for word, _rest in said):
        first = next((line.strip() for line in printed.splitlines() if line.strip()), "nothing")
        return f"its login shell runs no commands; it printed: {first[:200]}"
    if not any(word == "end" for word, _rest in said):
        return "its shell stopped in the middle of the look at the node"
    facts = dict(said)
    for fault in (
        _system(facts, said, families),
        _python(facts, said, pythons, minimum_python),
        _disks(said, free_mib, free_inodes),
    ):
        if fault:
            return fault
    return ""


def pdctl_no_root(result, user):
    """result: of `id -u`, run as the play's tasks are. user: the login, or empty."""
    printed = [line.strip() for line in str(result.get("stdout") or "").splitlines() if line.strip()]
    if printed and printed[-1] == "0":
        return ""
    login = f"the login `{user}`" if user else "the login"
    if printed and printed[-1].isdigit():
        return f"{login} is not root: use --become, with -K when sudo asks for a password, or set ansible_become in the inventory"
    words = " ".join(
        str(result.get(key) or "") for key in ("stdout", "stderr", "module_stdout", "module_stderr", "msg")
    )
    words = " ".join(words.split())
    if re.search(r"sudo(: command)?[: ]+(command )?not found|sudo: No such file", words):
        return "sudo is not installed on this node: install it, or log in as root (ansible_user=root, ansible_become=false)"
    if re.search(r"Missing sudo password|a (terminal|password) is required", words):
        return f"sudo asks {login} for a password: give it with -K, or as ansible_become_password from a vault"
    if re.search(r"Incorrect sudo password|incorrect password attempt", words):
        return f"sudo does not take the password of {login}"
    if re.search(r"not in the sudoers file|not allowed to (execute|run)", words):
        return f"{login} may not use sudo on this node: let its sudoers allow it"
    return f"{login} does not become root with --become: {words[:200] or 'no reason given'}"


def pdctl_twins(printed_of):
    """The hosts of one machine: name -> the first other name. printed_of: name -> what look.sh printed."""
    names = {}
    for name, printed in printed_of.items():
        machine = dict(_said(printed or "")).get("machine", "").strip()
        # All four parts: containers share a boot, a copied image its machine-id, and copies of a running machine a boot.
        if len(machine.split()) == 4:
            names.setdefault(machine, []).append(name)
    return {
        name: others[0] if others[0] != name else others[1]
        for others in names.values()
        if len(others) > 1
        for name in others
    }


def _said(printed):
    lines = (line.strip() for line in printed.splitlines())
    found = [line[len(_MARK) :].partition(" ") for line in lines if line.startswith(_MARK)]
    return [(word, rest) for word, _space, rest in found]


def _system(facts, said, families):
    if facts.get("kernel") != "Linux":
        return f"runs {facts.get('kernel') or 'no known system'}, not Linux"
    release = dict(rest.partition(" ")[::2] for word, rest in said if word == "os")
    release = {name: value.strip("\"'") for name, value in release.items()}
    words = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    family = next((_FAMILIES[word] for word in words if word in _FAMILIES), None)
    if family not in families:
        name = release.get("PRETTY_NAME") or release.get("ID") or "a system without /etc/os-release"
        return f"{name} is of none of the families that the roles know ({', '.join(families)})"
    return ""


def _python(facts, said, pythons, minimum):
    version, _space, path = facts.get("python", "").partition(" ")
    if not version:
        # What is there and does not run says more than what is not there; a shell says where in look.sh it was.
        broken = [re.sub(r"\blook: (line )?\d+: ", "", rest) for word, rest in said if word == "broken"]
        telling = [each for each in broken if "not found" not in each] or broken
        why = telling[0] if telling else f"tried {', '.join(pythons)}"
        return f"no Python works on this node: {why}. Install or repair the distribution's python3"
    if _numbers(version) < _numbers(minimum):
        return (
            f"Python {version} ({path}) is below {minimum}, the oldest that Ansible supports on a node; "
            "name a newer one in ansible_python_interpreter"
        )
    return ""


def _disks(said, free_mib, free_inodes):
    seen = []
    for word, rest in said:
        parts = rest.split()
        if word != "disk" or len(parts) != 6 or parts[1] in seen:
            continue
        path, at, free, inodes, total, options = parts
        seen.append(at)
        where = path if path == at else f"{path} (file system {at})"
        if "ro" in options.split(","):
            return (
                f"{where} is mounted read-only: the kernel does so after disk errors (`dmesg`); repair it, then remount"
            )
        if free.isdigit() and int(free) < free_mib * 1024:
            return f"{where} has {int(free) // 1024} MiB free, and {free_mib} MiB are needed: make room"
        # A file system without a table of inodes (btrfs) says 0 of 0.
        if inodes.isdigit() and total.isdigit() and int(total) and int(inodes) < free_inodes:
            return f"{where} has {inodes} inodes free, and {free_inodes} are needed: it is full of small files"
    return ""


def _numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)]


class FilterModule:
    def filters(self):
        return {"pdctl_unfit": pdctl_unfit, "pdctl_no_root": pdctl_no_root, "pdctl_twins": pdctl_twins}
