"""The addresses of an interface as they are recorded for the next boot, by whoever configures the interface.

What cannot be said there without a guess is refused by name: DHCP, a method of ifupdown that runs commands, addresses in two files.
"""

import ipaddress
import re
from pathlib import Path

from ansible.module_utils import pdctl_ifupdown, pdctl_netplan, pdctl_owner
from ansible.module_utils.pdctl_addresses import Refused, plain

# systemd.network(5), and the older words for two of them.
_DHCP_V4 = ("yes", "true", "on", "1", "ipv4", "v4", "both")
_FOLDERS = ("/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network", "/lib/systemd/network")
_IFCFG = Path("/etc/sysconfig/network-scripts")


def files(name, asked, owner, text_of):
    """Path -> text that must stand there. Empty where the record is none of a file. Raises Refused.

    asked: addresses as the policy has them. owner: as of pdctl_owner. text_of: a path's text or None.
    """
    if owner.get("shared"):
        raise Refused(f"{owner['unit']} configures {', '.join(owner['shared'])} as well")
    if owner["by"] == "networkmanager-defaults" or (owner["by"] == "networkmanager" and not owner["file"]):
        raise Refused(
            "the profile by which NetworkManager configures it stands in no file below /etc: make one of your own"
        )
    if owner["by"] == "networkd":
        return _networkd(asked, owner["unit"], text_of)
    if owner["by"] == "netplan":
        texts = {path: text_of(path) for path in [*map(str, pdctl_netplan.files()), pdctl_netplan.OWN]}
        texts = {path: text for path, text in texts.items() if text is not None}
        return pdctl_netplan.changed(texts, owner["section"], owner["id"], plain(asked))
    if owner["by"] == "ifupdown":
        texts = {path: text_of(path) or "" for path in map(str, pdctl_owner.interfaces_files())}
        return {owner["file"]: pdctl_ifupdown.changed(texts, owner["file"], name, asked)}
    if owner["by"] == "nobody" and (_IFCFG / f"ifcfg-{name}").exists():
        raise Refused(f"{_IFCFG}/ifcfg-{name} configures it, and not by NetworkManager")
    return {}


def may_change(name):
    """Paths that recording may make or change, each with who must read it again: for the backup."""
    owner = pdctl_owner.owner(name)
    reads = {"netplan": "netplan", "networkmanager": "networkmanager"}.get(owner["by"])
    paths = [owner["file"]]
    if owner["by"] == "networkd":
        paths = [path for path in _of_networkd(owner["unit"]) if path.startswith("/etc/")]
    elif owner["by"] == "netplan":
        paths = sorted({*(str(path) for path in pdctl_netplan.files()), pdctl_netplan.OWN})
    elif owner["by"] == "nobody":
        # The role names its script, its unit and its rule.
        paths = []
    return [{"path": path, **({"apply": reads} if reads else {})} for path in paths if path]


def _of_networkd(unit):
    name = Path(unit).name
    found = {path.resolve() for folder in _FOLDERS for path in Path(folder).glob(f"{name}.d/*.conf")}
    return [unit, *sorted(map(str, found - {Path(unit)}))]


def _networkd(asked, unit, text_of):
    texts = {path: text_of(path) or "" for path in _of_networkd(unit)}
    for path, text in texts.items():
        value = [words[2] for words in _assignments(text) if words[:2] == ("Network", "DHCP")]
        if value and value[-1].lower() in _DHCP_V4:
            raise Refused(f"it gets its address by DHCP ({path})")
    holding = [
        path
        for path, text in texts.items()
        if any(key == "Address" and section in ("Network", "Address") for section, key, _value in _assignments(text))
    ]
    if len(holding) > 1:
        raise Refused(f"its addresses stand in several files ({', '.join(holding)}): join them in one")
    path = holding[0] if holding else unit
    if not path.startswith("/etc/"):
        raise Refused(f"{path} is no file of the site: copy it to /etc/systemd/network")
    return {path: networkd(texts[path], asked)}


def _assignments(text):
    """(section, key, value) of each line that has one."""
    section = ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith(("#", ";")):
            key, _sign, value = line.partition("=")
            yield section, key.strip(), value.strip()


def networkd(text, asked):
    """The file with these addresses and no others. A section [Address] of one that stays is left as it is."""
    wanted = plain(asked)
    sections = _sections(text.splitlines())
    kept = [given for head, body in sections if head == "[Address]" for given in _given(body) if given in wanted]
    rest = [f"Address={each}" for each in wanted if each not in kept]
    placed, lines = False, []
    for head, body in sections:
        if head == "[Address]" and not any(given in kept for given in _given(body)):
            # What stands behind its last setting belongs to what follows.
            settings = [at for at, line in enumerate(body) if "=" in line and not line.lstrip().startswith(("#", ";"))]
            lines += body[settings[-1] + 1 if settings else 0 :]
            continue
        lines += [head] if head else []
        if head != "[Network]":
            lines += body
            continue
        own = [at for at, line in enumerate(body) if _is_address(line)]
        others = [line for line in body if not _is_address(line)]
        at = own[0] if own else len("\n".join(others).rstrip().splitlines())
        if [_spelled(body[number]) for number in own] == [each.partition("=")[2] for each in rest]:
            lines, placed = lines + body, True
        else:
            lines += [*others[:at], *([] if placed else rest), *others[at:]]
            placed = True
    if rest and not placed:
        lines += ["", "[Network]", *rest]
    return "\n".join(lines) + "\n"


def _sections(lines):
    """[(head or empty, lines)], all lines once."""
    found = [("", [])]
    for line in lines:
        if line.strip().startswith("["):
            found.append((line.strip(), []))
        else:
            found[-1][1].append(line)
    return found


def _is_address(line):
    return re.match(r"\s*Address\s*=", line) is not None


def _given(body):
    return [_spelled(line) for line in body if _is_address(line)]


def _spelled(line):
    value = line.partition("=")[2].strip()
    try:
        return str(ipaddress.ip_interface(value))
    except ValueError:
        return value


def networkmanager(fields, asked):
    """Properties of a connection that must be set, a flat list for `nmcli connection modify`. Raises Refused.

    fields: method and addresses of IPv4, then of IPv6, as nmcli prints them.
    """
    found = []
    for version, method, printed in ((4, fields[0], fields[1]), (6, fields[2], fields[3])):
        given = [each.strip() for each in re.split(r"[,|]", printed) if each.strip()]
        wanted = [each for each in plain(asked) if ipaddress.ip_interface(each).version == version]
        if version == 4 and method in ("auto", "shared", "link-local"):
            raise Refused(f"its connection has the method {method} for IPv4, not manual")
        if plain(given) == wanted:
            continue
        found += [f"ipv{version}.addresses", ",".join(wanted)]
        if not wanted:
            # Without an address the method `manual` is refused.
            found = [*found[:-2], f"ipv{version}.method", "disabled" if version == 4 else "link-local", *found[-2:]]
        elif method not in ("manual", "auto", "dhcp"):
            found += [f"ipv{version}.method", "manual"]
    return found
