"""The operating system of a node: kernel settings, limits, locale, modules, units, packages."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class OsRelease(Fact):
    """id and version of /etc/os-release; family: Debian, RedHat, or the id itself."""

    id: str
    version: str
    family: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(Fact):
    """The release of the running kernel, as uname(1) prints it."""

    release: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uptime(Fact):
    """Seconds since the node booted."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Package(Fact):
    """An installed package of the distribution; version with its release, as the package manager compares it."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sysctl(Fact):
    """value: one space between several numbers. Unknown: absent here, or not to be read."""

    key: str
    value: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SysctlLine(Fact):
    """A line of a sysctl.d(5) file: what the next boot will set. key: dotted, or a pattern with `*`."""

    path: str
    line: int
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Fact):
    """One resource limit. scope: whose (`this session`, `systemd services`, ...). None: unlimited. memlock in bytes."""

    name: str
    scope: str
    soft: int | None
    hard: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleParameters(Fact):
    """The parameters that an installed module accepts."""

    module: str
    names: frozenset[str] | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOption(Fact):
    """An `options` line of modprobe's configuration."""

    module: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class NewerOption:
    """A line of a file of modprobe.d: the module and what it sets, `prof_sel=2 debug_mask=1`."""

    path: str
    module: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InitramfsOptions(Fact):
    """Options in files that are newer than the initramfs of the running kernel, which so holds others. image: its path."""

    image: str
    newer: tuple[NewerOption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitramfsModules(Fact):
    """The modules that the boot loads from the initramfs, with the options that it holds."""

    image: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRefused(Fact):
    """modprobe or insmod could not load a module. words: why, as it printed."""

    module: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModules(Fact):
    """filter: of a list that went through `grep`, the words of which each line has one; None where the list is whole,
    empty where nobody knows what was left out.
    """

    names: frozenset[str]
    filter: tuple[str, ...] | None = None

    def lacks(self, name: str) -> bool:
        """Whether the module is not loaded: it is absent, and the list would show it."""
        return name not in self.names and (self.filter is None or any(word in name for word in self.filter))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit(Fact):
    """A systemd unit: LoadState, ActiveState, SubState, UnitFileState, whether its file changed since it was loaded, the
    Result of its last run, how often systemd restarted it, and its main process. What was not printed is empty, or 0.
    """

    name: str
    load: str
    active: str
    enabled: str
    stale: bool
    sub: str = ""
    result: str = ""
    restarts: int = 0
    pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitAsked(Fact):
    """Somebody asked systemd for a unit that does not exist."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePages(Fact):
    """Huge pages of the default size: counts, and one page in bytes. reserved: promised but not yet touched."""

    total: int
    free: int
    reserved: int
    page: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePagesRefused(Fact):
    """A program asked for huge pages and did not get them."""

    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonVersion(Fact):
    """An interpreter of the node. version: major, minor."""

    path: str
    version: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonModule(Fact):
    """Whether an interpreter of the node can import a module. why: its error."""

    path: str
    module: str
    present: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocaleList(Fact):
    """What `locale -a` lists."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charmap(Fact):
    """The character set that a locale really gives. locale: empty where it is the session's own.

    beaten: the LANG that the same command set, and that LC_ALL or LC_CTYPE overrode.
    """

    locale: str
    charmap: str
    complaints: str
    beaten: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocaleSetting(Fact):
    """The system's locale file and what it sets (LANG, LC_ALL, ...)."""

    path: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NonAsciiByte(Fact):
    """A byte above 0x7f in a package manager's configuration. column counts bytes from 1.

    character: the whole one that the byte begins, in UTF-8; empty where it is none, or was not printed as such.
    """

    path: str
    line: int
    column: int
    byte: int
    comment: bool
    character: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoScan(Fact):
    """Package manager configuration was searched for non-ASCII bytes and none was found."""

    paths: str


@dataclass(frozen=True, slots=True, kw_only=True)
class YumWrapper(Fact):
    """The yum wrapper: where it is (empty: nowhere) and the locale that it sets."""

    path: str
    locale: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecFailure(Fact):
    """A Python program of the system stopped because its ASCII codec cannot read a byte or write a character.

    writing: it could not print a text. statement: the source line that stopped, where the traceback shows it.
    """

    program: str
    byte: int | Unknown
    position: int | Unknown
    writing: bool = False
    statement: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocaleRefused(Fact):
    """A program said that it could not use the locale of its environment. locale: empty where it does not name it."""

    program: str
    locale: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedMessage(Fact):
    """A tool spoke a language other than English. meaning: the message in English."""

    language: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSync(Fact):
    """offset_s: how far the clock is from its source, either way; Unknown where the tool does not say."""

    synchronised: bool
    by: str
    offset_s: float | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockAsked(Fact):
    """Seconds since 1970 by the node's clock, and by the clock of whoever asked it, a little earlier."""

    node_s: int
    asked_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment(Fact):
    """Environment variables of the process that printed them."""

    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsibleFailure(Fact):
    """kind: `target-python`, `no-python` or `pkg-backend`. detail: the words that say so."""

    kind: str
    host: str
    detail: str
