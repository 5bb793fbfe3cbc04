"""One bundle's redactor: first it learns the words of all texts, then it replaces them in each."""

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from pdchecks.redaction.numbers import Numbers
from pdchecks.redaction.words import HOSTS, LEVELS, PRIVATE_KEY, SECRETS, Kind, host, is_common, is_no_secret, words

_HEX = "0123456789abcdef"
_PAIR = "[0-9A-Fa-f]{2}"
# grep prints a file of sysfs and its one line joined by a colon: .../gids/3:0000:0000:...
_AFTER_FILE = r"(?<=/\d:)|(?<=/\d\d:)|(?<=/\d\d\d:)|(?<=guid:)|(?<=/address:)"
_TOKEN = re.compile(
    rf"(?P<uuid>(?<![\w-])(?:GPU-|MIG-)?[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}(?![\w-]))"
    rf"|(?P<ipoib>(?<![\w:])(?:{_PAIR}:){{19}}{_PAIR}(?![\w:]))"
    rf"|(?P<mac>(?:(?<![\w:-])|{_AFTER_FILE})(?:{_PAIR}(?P<joint>[:-])){_PAIR}(?:(?P=joint){_PAIR}){{4}}(?![\w:-]))"
    rf"|(?P<guid>(?:(?<![\w:])|{_AFTER_FILE})(?:0x[0-9A-Fa-f]{{16}}|[0-9A-Fa-f]{{4}}(?::[0-9A-Fa-f]{{4}}){{3}})(?![\w:]))"
    rf"|(?P<ipv6>(?:(?<![\w:.])|{_AFTER_FILE})"
    r"(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})(?![\w:.]|\.\d)(?:/(?P<length6>\d{1,3}))?)"
    # Without joints: interfaces named by their MAC, flint and mlxconfig, disks, a card's own data in lspci.
    r"|(?P<bare>(?<![A-Za-z0-9])enx[0-9a-f]{12}(?![0-9A-Za-z])"
    r"|(?<=\bMAC)(?:s?:)?\s{1,40}(?:Base )?[0-9A-Fa-f]{12}\b|(?<=\bGUID)(?:s?:)?\s{1,40}(?:Base )?(?:0x)?[0-9A-Fa-f]{16}\b"
    r"|\b(?:naa|eui|wwn)\.(?:0x)?[0-9a-f]{16}(?:[0-9a-f]{16})?\b|(?<=Vendor specific: )[0-9a-f]{32}\b)"
    r"|(?P<ipv4>(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)(?:/(?P<length4>\d{1,2})(?!\d))?)"
)
_BARE = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{12})(?![0-9A-Fa-f])")
_OPEN_MACS = re.compile(r"(?:ff[:-]){5}ff|(?:00[:-]){5}00|33[:-]33[:-].*|01[:-]00[:-]5e[:-].*", re.IGNORECASE)


class Redactor:
    """Maps each name, address and secret to the same other one everywhere. Same key, same mapping."""

    def __init__(self, key: bytes) -> None:
        self._numbers = Numbers(key)
        self._words: dict[str, str] = {}
        self._counts: dict[Kind, int] = {}

    def learn(self, text: str, hosts: Iterable[str] = ()) -> None:
        """hosts: names of nodes, whatever the text says."""
        for name in hosts:
            for kind, word in host(name):
                self._learn(kind, word)
        for kind, word in words(text):
            self._learn(kind, word)

    def _learn(self, kind: Kind, word: str) -> None:
        if word in self._words or (kind is Kind.HOST and is_common(word)):
            return
        self._counts[kind] = self._counts.get(kind, 0) + 1
        tail = ".invalid" if kind is Kind.DOMAIN else ""
        self._words[word] = f"{kind.value}-{self._counts[kind]}{tail}"

    def __call__(self, text: str) -> str:
        text = PRIVATE_KEY.sub("(a private key was here)", text)
        # Long ones first: a name may be a part of another.
        for word in sorted(self._words, key=len, reverse=True):
            if word in text:
                bounded = rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])"
                text = re.sub(bounded, lambda match, new=self._words[word]: new, text)  # type: ignore[misc]
        for pattern in HOSTS:
            text = pattern.sub(self._place, text)
        for pattern in SECRETS:
            text = pattern.sub(self._secret, text)
        return _TOKEN.sub(self._token, text)

    def _place(self, match: re.Match[str]) -> str:
        """A host's name that is also a word of the tools."""
        word = match["word"]
        if not is_common(word) or word == "localhost" or word.lower() in LEVELS:
            return match[0]
        begin, end = match.start("word") - match.start(), match.end("word") - match.start()
        return f"{match[0][:begin]}{self.node(word)}{match[0][end:]}"

    def _secret(self, match: re.Match[str]) -> str:
        """A secret that could be a common word: replaced where it stands, and nowhere else."""
        word = match["word"]
        begin, end = match.start("word") - match.start(), match.end("word") - match.start()
        if is_no_secret(word, match[0][:begin]):
            return match[0]
        return f"{match[0][:begin]}{Kind.SECRET}-{self._numbers.letters(word, _HEX)[:6]}{match[0][end:]}"

    def node(self, name: str) -> str:
        """A node's own name; one that is a common word too has no other way to its replacement."""
        return f"node-{self._numbers.letters(name + '....', _HEX)[:4]}" if is_common(name) else self(name)

    def _token(self, match: re.Match[str]) -> str:
        text = match[0]
        if match["uuid"]:
            head = text[:4] if text[:4] in ("GPU-", "MIG-") else ""
            letters = self._numbers.letters(text[len(head) :].replace("-", ""), _HEX)
            return head + "-".join((letters[:8], letters[8:12], letters[12:16], letters[16:20], letters[20:]))
        if match["ipoib"]:
            value = int(text.replace(":", ""), 16)
            return _joined(self._numbers.identifier(value), 40, 2, ":", text)
        if match["mac"]:
            if _OPEN_MACS.fullmatch(text):
                return text
            joint = match["joint"]
            return _joined(self._numbers.identifier(int(text.replace(joint, ""), 16)), 12, 2, joint, text)
        if match["bare"]:
            return _BARE.sub(self._bare, text)
        if match["guid"]:
            value = int(text.removeprefix("0x").replace(":", ""), 16)
            # A subnet's prefix, and a number that is no identifier: there is no maker's code in it.
            if value & (1 << 40) - 1 == 0 or value >> 40 == 0 or value == (1 << 64) - 1:
                return text
            mapped = self._numbers.identifier(value)
            return f"0x{mapped:016x}" if text.startswith("0x") else _joined(mapped, 16, 4, ":", text)
        return self._ipv6(match) if match["ipv6"] else self._ipv4(match)

    def _bare(self, match: re.Match[str]) -> str:
        """Of a number as long as two, the second half is the card's; in the first is a number of the maker's."""
        text = match[0]
        head, tail = (text[:20], text[20:]) if len(text) == 32 else ("", text)
        mapped = self._numbers.identifier(int(tail, 16))
        return self._numbers.letters(head, _HEX) + _joined(mapped, len(tail), len(tail), "", tail)

    def _ipv4(self, match: re.Match[str]) -> str:
        address, slash, length = match["ipv4"].partition("/")
        try:
            bits = min(int(length or 32), 32)
            return f"{self._numbers.ipv4(IPv4Address(address), bits)}{slash}{length}"
        except AddressValueError:
            return match[0]

    def _ipv6(self, match: re.Match[str]) -> str:
        address, slash, length = match["ipv6"].partition("/")
        try:
            mapped = self._numbers.ipv6(IPv6Address(address), min(int(length or 128), 128))
        except AddressValueError:
            return match[0]
        return f"{_styled(mapped, address)}{slash}{length}"


def _joined(value: int, digits: int, size: int, joint: str, like: str) -> str:
    text = f"{value:0{digits}x}"
    text = text.upper() if like != like.lower() else text
    return joint.join(text[at : at + size] for at in range(0, digits, size))


def _styled(address: IPv6Address, like: str) -> str:
    """Written out in full, with an IPv4 tail, or short, as the other was."""
    if "." in like:
        return f"::ffff:{address.ipv4_mapped}"
    if len(like) == 39:
        return _joined(int(address), 32, 4, ":", like)
    if address.ipv4_mapped is not None:
        # Python 3.13 prints the tail of such an address with dots.
        return f"::ffff:{int(address) >> 16 & 0xFFFF:x}:{int(address) & 0xFFFF:x}"
    return str(address)
