"""Addresses of an interface in the files of ifupdown, interfaces(5): a stanza `static` for each. Pure: text to text."""

import ipaddress
import re

from ansible.module_utils import pdctl_owner
from ansible.module_utils.pdctl_addresses import Refused, plain

# Options that make up an address.
_OF_ADDRESS = ("address", "netmask", "broadcast", "network")
_GIVES_ADDRESSES = re.compile(r"\b(ip\s+(-\S+\s+)*a(d|dd|ddr|ddress)?\s|ifconfig\s|dhclient\b)")


def changed(texts, path, name, asked):
    """The file with these addresses and no others; anything else of it stays. texts: of all files, by path. Raises Refused."""
    for other, text in texts.items():
        if other != path and pdctl_owner.stanza(text.splitlines(), name):
            raise Refused(f"{path} and {other} both have a stanza of it")
    lines = texts[path].splitlines()
    for family, version in (("inet", 4), ("inet6", 6)):
        wanted = [each for each in plain(asked) if ipaddress.ip_interface(each).version == version]
        stanzas = [each for each in _stanzas(lines, name) if each[2] == family]
        _refuse(stanzas, wanted, family)
        if [_address(lines[begin:end]) for begin, end, _family, _method in stanzas if _method == "static"] == wanted:
            continue
        new = [[f"iface {name} {family} static", f"    address {each}"] for each in wanted]
        if stanzas:
            begin, end = stanzas[0][:2]
            _only_address(lines, stanzas[1:])
            for other in reversed(stanzas[1:]):
                del lines[other[0] : other[0] + _length(lines[other[0] : other[1]])]
            first = [line for line in lines[begin:end] if line.split()[:1] not in [[key] for key in _OF_ADDRESS]]
            new[0] = [first[0], f"    address {wanted[0]}", *first[1 : _length(first)]]
            lines[begin:end] = [*(line for each in new for line in each), *first[_length(first) :]]
        elif wanted:
            begin, end = _stanzas(lines, name)[-1][:2]
            at = begin + _length(lines[begin:end])
            lines[at:at] = [line for each in new for line in ["", *each]]
    return "\n".join(lines) + "\n"


def _stanzas(lines, name):
    """[(first line, line behind the last, family, method)] of an interface."""
    found, at = [], 0
    while True:
        here = pdctl_owner.stanza(lines[at:], name)
        if here is None:
            return found
        begin, end = here[0] + at, here[1] + at
        words = lines[begin].split()
        if "inherits" in words:
            raise Refused("its stanza inherits from another")
        found.append((begin, end, *([*words, "", ""][2:4])))
        at = end


def _refuse(stanzas, wanted, family):
    for _begin, _end, _family, method in stanzas:
        if method != "static" and (wanted or (method, family) == ("dhcp", "inet")):
            raise Refused(f"its method is {family} {method}, not static")
    if not wanted and any(method == "static" for _begin, _end, _family, method in stanzas):
        raise Refused(f"a stanza {family} static cannot be without an address: take it out")


def _address(body):
    options = {words[0]: words[1] for words in (line.split() for line in body[1:]) if len(words) > 1}
    address, length = options.get("address", ""), options.get("netmask", "")
    if any(_GIVES_ADDRESSES.search(line) for line in body[1:]):
        raise Refused("its stanza runs a command that gives addresses")
    try:
        return str(ipaddress.ip_interface(address if "/" in address or not length else f"{address}/{length}"))
    except ValueError:
        raise Refused(f"its stanza has no address that can be read: `{address}`") from None


def _only_address(lines, stanzas):
    for begin, end, _family, _method in stanzas:
        more = [
            line.split()[0] for line in lines[begin + 1 : end] if line.split() and line.split()[0] not in _OF_ADDRESS
        ]
        if [word for word in more if not word.startswith("#")]:
            raise Refused(f"a second stanza of it says more than an address ({more[0]})")


def _length(body):
    """Lines of a stanza up to its last option: what follows belongs to the next."""
    at = len(body)
    while at > 1 and (not body[at - 1].strip() or body[at - 1].startswith("#")):
        at -= 1
    return at
