"""Settings that texts make: kernel settings and environment variables, in every syntax in which people write them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pdchecks.lint.text import Hit, Line, Text

_KEY = r"(?:net|kernel|vm|fs|dev)(?:[./][\w*-]+)+"
_SYSCTL = re.compile(rf"(?<![\w/.])(?P<key>{_KEY})[\"']?\s*(?:=|:)\s*[\"']?(?P<value>[^\s\"'#;|&]+(?:\s+\d+)*)")
_PROC = re.compile(
    r"echo\s+[\"']?(?P<value>[\w .-]{1,80}?)[\"']?\s*(?:>|\|\s*(?:sudo\s+)?tee)\s*/proc/sys/(?P<key>[\w./*-]+)"
)
_NAME = re.compile(rf"\bname\s*:\s*[\"']?(?P<key>{_KEY}|[A-Z][A-Z0-9_]+)[\"']?\s*$")
_VALUE = re.compile(r"\bvalue\s*:\s*[\"']?(?P<value>[^\"'#]+)")
# How far below its name a value stands in a task or a container's list of variables.
_NEAR = 4
# %s: the names asked for.
_VARIABLE = r"(?<![\w.$-])(?P<key>%s)[\"']?\s*(?:=|:\s)\s*[\"']?(?P<value>[^\s\"',;]+)"
_DOCKERFILE = r"^\s*ENV\s+(?P<key>%s)\s+(?P<value>\S+)"


@dataclass(frozen=True, slots=True)
class Setting:
    """key: dotted for the kernel's. value: as written, without quotes."""

    key: str
    value: str
    line: Line
    offset: int
    words: str

    def hit(self, right: str = "") -> Hit:
        return self.line.hit(self.offset, self.words, right)


def kernel_settings(text: Text) -> Iterator[Setting]:
    """From sysctl.conf, `sysctl -w`, `echo V > /proc/sys/...`, YAML mappings, and Ansible's sysctl module."""
    for expression in (_SYSCTL, _PROC):
        for line, match in text.find(expression):
            yield _setting(line, match, match["key"].replace("/", "."))
    yield from (setting for setting in _pairs(text) if "." in setting.key)


def variables(text: Text, *names: str) -> Iterator[Setting]:
    """From shells, `docker run -e`, Dockerfile, Compose, systemd's Environment=, YAML mappings and name/value lists."""
    for template in (_VARIABLE, _DOCKERFILE):
        for line, match in text.find(re.compile(template % "|".join(names))):
            yield _setting(line, match, match["key"])
    yield from (setting for setting in _pairs(text) if setting.key in names)


def _setting(line: Line, match: re.Match[str], key: str) -> Setting:
    return Setting(key, match["value"].strip().strip("\"'"), line, match.start("key"), match[0])


def _pairs(text: Text) -> Iterator[Setting]:
    lines = text.lines
    for number, line in enumerate(lines):
        name = _NAME.search(line.text)
        if name is None:
            continue
        for below in lines[number + 1 : number + 1 + _NEAR]:
            if value := _VALUE.search(below.text):
                said = f"{name['key']}: {value['value'].strip()}"
                yield Setting(name["key"].replace("/", "."), value["value"].strip(), line, name.start("key"), said)
                break


def integer(value: str) -> int | None:
    """The number that a value is; None for several, or for something else."""
    return int(value) if re.fullmatch(r"\d{1,18}", value) else None
