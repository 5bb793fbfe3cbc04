"""Commands that bring the addresses of an interface from one list to another, and back. Pure; lists as pdctl_addresses has them."""

import ipaddress

from ansible.module_utils import pdctl_addresses as addresses


def after(now, wanted, promote):
    """What the kernel shows when that is added to `now` which is wanted and not there, and then the rest deleted,
    the last first.

    linux net/ipv4/devinet.c, __inet_insert_ifa and __inet_del_ifa: the first address of a subnet stands before all that are not.
    promote: net.ipv4.conf.*.promote_secondaries; without it the others of a subnet go with its first.
    """
    first, others, of_v6 = [], [], []
    for words in [*now, *(each for each in wanted if each not in now)]:
        if not addresses.is_v4(words):
            of_v6.append(words)
        elif addresses.subnet(words) in map(addresses.subnet, first):
            others.append(words)
        else:
            first.append(words)
    for words in (each for each in reversed(now) if each not in wanted):
        heirs = [each for each in others if addresses.subnet(each) == addresses.subnet(words)]
        if words in of_v6:
            of_v6.remove(words)
        elif words in others:
            others.remove(words)
        elif words in first:
            first.remove(words)
            first += heirs[:1] if promote else []
            others = [each for each in others if each not in (heirs[:1] if promote else heirs)]
    return first + others + sorted(of_v6)


def target(lasting, asked, promote):
    """The list that is asked for: an address that stays keeps its words, and nothing is moved that need not be."""
    kept = {addresses.interface(words): words for words in lasting if addresses.DUPLICATE not in words}
    wanted = [kept.get(ipaddress.ip_interface(each), addresses.new(each)) for each in asked]
    least = after(lasting, wanted, promote)
    return least if addresses.serves(least, asked) else after([], wanted, promote)


def commands(name, now, wanted, promote, routes):
    """routes: commands that make the routes of IPv4 again that go with the last address.

    What is new is added before the rest is deleted, so that no route goes; where that would not leave the wanted order, the whole
    list is made anew.
    """
    was, will = _v4(now), _v4(wanted)
    if after(was, will, promote) != will or _reworded(was, will):
        return [*_anew(name, will), *routes, *_differing(name, _v6(now), _v6(wanted))]
    return _differing(name, now, wanted)


def undo(name, former, wanted, routes):
    """Back to the former list from anywhere between the two. routes: commands that make all routes of the interface again."""
    was, will = _v6(former), _v6(wanted)
    steps = _anew(name, _v4(former)) if _v4(former) != _v4(wanted) else []
    steps += [_ip("del", name, words) for words in will if words not in was and words not in _reworded(was, will)]
    # Not by `add`: whether the change came so far as to delete it is not known.
    steps += [_ip("replace", name, words) for words in was if words not in will]
    return [*steps, *routes]


def at_boot(name, asked):
    """Where nobody configures the interface, nobody brings it up either."""
    return [["ip", "link", "set", "dev", name, "up"], *(_ip("replace", name, addresses.new(each)) for each in asked)]


def _anew(name, lasting):
    flush = ["ip", "-4", "address", "flush", "dev", name, "scope", "global", "permanent"]
    return [flush, *(_ip("add", name, words) for words in lasting)]


def _differing(name, now, wanted):
    # The kernel takes an address in other words for the same, and does not add it.
    renewed = _reworded(wanted, now)
    added = [words for words in wanted if words not in now]
    gone = [words for words in reversed(now) if words not in wanted and words not in renewed]
    steps = (
        [("del", words) for words in renewed] + [("add", words) for words in added] + [("del", words) for words in gone]
    )
    return [_ip(verb, name, words) for verb, words in steps]


def _reworded(one, other):
    """Of the second list, addresses that the first has in other words."""
    known = [addresses.interface(words) for words in one]
    return [words for words in other if words not in one and addresses.interface(words) in known]


def _v4(lasting):
    return [words for words in lasting if addresses.is_v4(words)]


def _v6(lasting):
    return [words for words in lasting if not addresses.is_v4(words)]


def _ip(verb, name, words):
    plain = [word for word in words if word != addresses.DUPLICATE]
    # Only what names an address counts when it is deleted.
    if verb == "del":
        plain = plain[: 3 if plain[1:2] == ["peer"] else 1]
    return ["ip", "address", verb, *plain, "dev", name]
