"""The words of a text that name somebody or open something: hosts, domains, users, serial numbers, keys and tokens."""

import re
from collections.abc import Iterator
from enum import StrEnum


class Kind(StrEnum):
    """What a word is; its replacement begins so."""

    HOST = "node"
    DOMAIN = "domain"
    USER = "user"
    SERIAL = "serial"
    SECRET = "redacted"


# Words of the tools themselves: as a host's name they are replaced only where a host's name stands.
COMMON = frozenset(
    """
    active all any bash bond controller cpu debian default dev down error eth fs gpu host ib info
    kernel linux localhost local login log main master mlx5 mlx5_core net node none nvidia ping pod
    port prefill decode proc rdma roce root router server service state sudo sys system systemd test
    ubuntu unknown up user vm warning worker
    """.split()  # noqa: SIM905
)
# Where a log without a host's name has its level.
LEVELS = frozenset(["trace", "debug", "info", "notice", "warn", "warning", "error", "critical", "fatal", "panic"])
_NAME = r"(?P<word>[A-Za-z0-9](?:[\w.-]{0,251}[A-Za-z0-9])?)"
_STAMP = r"(?:[A-Z][a-z]{2}\s{1,2}\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:[+-]\d\d:?\d\d|Z)?)"
# Where a host's name stands: syslog, journal, prompts, uname, hostnamectl, NCCL, UCX, /etc/hosts, DNS.
HOSTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"^{_STAMP} {_NAME} [\w@./-]{{1,80}}(?:\[\d{{1,10}}\])?: ",
        rf"^\S{{0,40}}\[[\w.-]{{1,64}}@{_NAME}[^\]\n]{{0,200}}\][#$%]",
        rf"^(?:\([\w.-]{{1,40}}\) ?)?[\w.-]{{1,64}}@{_NAME}:[^#$\n]{{0,200}}[#$] ",
        rf"^Linux {_NAME} \d",
        rf"^=== cmd: {_NAME}: \S",
        rf"^[ \t]{{0,40}}(?:(?:Static |Transient )?[Hh]ostname|HOSTNAME|SysName)[ \t]{{0,20}}[:=][ \t]{{0,20}}\"?{_NAME}\"?$",
        rf"^{_NAME}:\d{{1,8}}:\d{{1,8}} \[\d{{1,3}}\] ",
        rf"^\[\d{{1,12}}\.\d{{1,9}}\] \[{_NAME}:\d{{1,8}}",
        rf"^(?:\d{{1,3}}\.){{3}}\d{{1,3}}[ \t]{{1,40}}{_NAME}$",
        rf"(?:ssh|from|to) [\w.-]{{1,64}}@{_NAME} port \d",
        # A word without a digit or a dot may be a setting.
        rf"(?:\bMASTER_ADDR|_HOST|\bhostname)=[\"']?(?=[^\s\"']{{0,253}}[\d.]){_NAME}(?=[\s\"':]|$)",
    )
)
_DOMAINS = re.compile(
    r"^[ \t]{0,40}(?:search|domain|domain_name)[ \t]{0,4}[:=]?[ \t]{1,20}(?P<word>[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})[ \t]{0,8}$",
    re.MULTILINE,
)
_USERS = (
    re.compile(r"(?:/home/|\bssh )(?P<word>[a-z_][\w.-]{1,31})(?=[/@\s:])"),
    re.compile(
        r"\b(?:password|publickey|keyboard-interactive\S{0,8}) for (?:invalid user )?(?P<word>[a-z_][\w.-]{1,31}) from "
    ),
    re.compile(r"\bsudo(?:\[\d{1,10}\])?:\s{1,12}(?P<word>[a-z_][\w.-]{1,31}) : "),
    re.compile(
        r"\b(?P<word>[\w.+-]{1,64}@(?!openssh\.com|libssh\.org)[a-z0-9-]{1,63}(?:\.[a-z0-9-]{2,63}){0,4}\."
        r"(?!service|target|socket|timer|mount|slice|scope|path|device)[a-z]{2,12})\b"
    ),
)
_NOBODY = frozenset(
    """
    root ubuntu debian ec2-user centos rocky admin nobody lost+found linuxbrew user
    """.split()  # noqa: SIM905
)
_SERIALS = (
    re.compile(
        r"\b(?:serial(?:[ _-]?(?:number|no|num))?|s/n|sn|(?:service|asset)[ _-]?tag)\b\"?\]?[ \t]{0,40}[:= ][ \t]{0,40}\"?"
        r"(?P<word>(?=[A-Za-z_-]{0,63}\d)[A-Za-z0-9][\w-]{5,63})",
        re.IGNORECASE,
    ),
    # /dev/disk/by-id: BUS-MODEL_SERIAL, with a namespace, a part or a LUN behind; a WWID.
    re.compile(
        r"\b(?:nvme|ata|scsi|usb|mmc)-[\w.+-]{1,128}?_(?P<word>(?=[A-Za-z-]{0,40}\d)[A-Za-z0-9-]{6,40}?)"
        r"(?=(?:_\d{1,4})?(?:-part\d{1,4}|-ns\d{1,4}|-\d{1,3}:\d{1,3})?(?:[\s\"',;:)\]]|$))",
        re.MULTILINE,
    ),
    re.compile(r"\b(?:scsi|dm-uuid-mpath)-(?P<word>[0-9a-f]{17,33})\b"),
    # nvme(1): `list`, and the name of a subsystem.
    re.compile(
        r"^/dev/nvme\w{1,16}[ \t]{1,40}(?:/dev/ng\w{1,16}[ \t]{1,40})?(?P<word>(?=[A-Za-z]{0,20}\d)\w{6,20})\s",
        re.MULTILINE,
    ),
    re.compile(r"\bnqn\.[\w.-]{1,80}:(?P<word>[0-9a-f]{8}\w{6,40})"),
)
# NAME:PASSWORD@HOST, in an address or bare; NAME:TAG@sha256 is an image's, a@b.service a unit's.
_CREDENTIALS = (
    re.compile(r"://[^\s:/@]{1,64}:(?P<word>[^\s/\"']{1,256})@"),
    re.compile(
        r"(?:^|(?<=[\s\"'=]))[A-Za-z_][\w.-]{0,63}:(?P<word>(?=[^\s/@:]{0,63}[\d%!$^&*#+~])[^\s/@:\"']{4,64})"
        r"@(?!sha\d{3}:)(?=[\w.-]{2,253}(?:[\s\"':/]|$))(?!\S{1,200}\.(?:service|socket|timer|target|slice|scope)\b)",
        re.MULTILINE,
    ),
)
SECRETS = (
    re.compile(
        r"(?:passwd|password|passphrase|(?:\b|_)(?:token|secret|psk|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|"
        r"private[_-]?key|auth[_-]?key|credentials?|become[_-]?pass))\"?'?[ \t]{0,4}[=:][ \t]{0,4}[\"'\[(]{0,3}"
        r"(?P<word>[^\s\"',;&]{4,512})",
        re.IGNORECASE,
    ),
    # `PWD=` alone is a folder, and `..._KEY=` may name a file.
    re.compile(
        r"(?:(?:\b|_)(?:pass|pw)|[_.-](?:pwd|auth)|(?:Account|SharedAccess)Key)=[\"']?(?P<word>[^\s\"',;&]{4,512})",
        re.IGNORECASE,
    ),
    re.compile(r"(?<=[A-Z0-9])_KEY=[\"']?(?P<word>(?!/)[^\s\"',;&]{4,512})"),
    re.compile(
        r"--?(?:\w{1,20}-){0,3}(?:token|secret|pass|password|passphrase|api-key|secret-key|access-key)[ \t]{1,4}"
        r"(?P<word>[^\s\"'-][^\s\"']{3,511})"
    ),
    # sshpass, ipmitool, mysql and curl take them as one letter's argument.
    re.compile(r"\bsshpass[ \t]{1,4}-p[ \t]{0,4}(?P<word>[^\s\"']{1,256})"),
    re.compile(r"\bipmitool\b[^\n]{0,200}?[ \t]-P[ \t]{0,4}(?P<word>[^\s\"']{1,256})"),
    re.compile(r"\bmysql\w{0,10}\b[^\n]{0,200}?[ \t]-p(?P<word>[^\s\"']{1,256})"),
    re.compile(r"\bcurl\b[^\n]{0,400}?[ \t](?:-u|--user)[ \t=]{0,4}[\"']?[^\s:\"']{1,64}:(?P<word>[^\s\"']{1,256})"),
    re.compile(r"\bhooks\.slack\.com/services/(?P<word>[\w/-]{8,128})"),
    re.compile(r"\b(?:password|passwd)[ \t]{1,4}(?P<word>(?=[^\s\"']{0,60}\d)[^\s\"']{4,512})"),
    re.compile(r"\b(?:Bearer|Basic)\s{1,4}(?P<word>[A-Za-z0-9+/=._~-]{8,2048})"),
    re.compile(r"\b(?P<word>(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|nvapi-|xox[bp]-|AKIA|ASIA)[A-Za-z0-9_-]{12,255})"),
    re.compile(r"\b(?P<word>eyJ[A-Za-z0-9_-]{10,2048}\.[A-Za-z0-9_-]{4,4096}\.[A-Za-z0-9_-]{4,1024})"),
    re.compile(r"\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S{1,20}) (?P<word>AAAA[A-Za-z0-9+/=]{20,4096})"),
    re.compile(
        r"\b(?:docker|podman|nerdctl|buildah|skopeo|oras|helm)\b[^\n]{0,100}?[ \t]login\b[^\n]{0,200}?[ \t]-p[ \t=]{0,4}[\"']?"
        r"(?P<word>[^\s\"']{1,256})"
    ),
    # Whole: which of its pairs opens something, only the server knows.
    re.compile(r"\b(?:Set-)?Cookie[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?(?P<word>[^\s\"'][^\n\"']{2,4095})", re.IGNORECASE),
    re.compile(
        r"\bcurl\b[^\n]{0,400}?[ \t](?:-b|--cookie)[ \t=]{0,4}[\"']?(?P<word>[^\s\"'=]{1,128}=[^\s\"']{1,2048})"
    ),
    *_CREDENTIALS,
    re.compile(r"://(?P<word>[^\s:/@]{4,256})@"),
)
_NO_SECRETS = frozenset(
    [
        "none",
        "null",
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "unset",
        "empty",
        "required",
        "enabled",
        "disabled",
        "optional",
        "missing",
        "invalid",
        "expired",
    ]
)
_PASSWORD = re.compile(r"pass|pw|://[^/]{1,64}:$", re.IGNORECASE)
# Also one that was cut off before its end.
PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?:\s|\\n){0,8}[A-Za-z0-9+/=]{1,200})*(?:(?:\s|\\n){0,8}-----END [A-Z ]{0,40}-----)?"
)
_CSV_SERIAL = re.compile(r"(?:^|, )(?:gpu_)?serial(?:, |$)")


def is_common(name: str) -> bool:
    """Whether a host's name may be something else wherever it does not stand in a host's place."""
    telling = len(name) > 2 or (len(name) == 2 and name[0].isalpha() and name[1].isdigit())
    return name.lower() in COMMON or not telling or name.isdecimal()


def is_no_secret(word: str, before: str = "") -> bool:
    """What stands in a secret's place and is none. before: what names it; a number may be a password, and is no token."""
    return (
        word.lower().rstrip(".)]}:") in _NO_SECRETS
        or (word.isdecimal() and not _PASSWORD.search(before))
        or word.startswith((f"{Kind.SECRET}-", "$", "<", "*"))
    )


def words(text: str) -> Iterator[tuple[Kind, str]]:
    """Each with what it is; a host with a domain gives both, and the host alone."""
    for pattern in HOSTS:
        for match in pattern.finditer(text):
            yield from host(match["word"])
    for match in _DOMAINS.finditer(text):
        yield from _domains(match["word"])
    # The end of a password with `@` behind it looks like the begin of a mail address.
    named = text
    for pattern in _CREDENTIALS:
        named = pattern.sub("", named)
    for pattern in _USERS:
        for match in pattern.finditer(named):
            if match["word"] not in _NOBODY:
                yield Kind.USER, match["word"]
    for pattern in _SERIALS:
        for match in pattern.finditer(text):
            yield Kind.SERIAL, match["word"]
    yield from _csv(text)
    for pattern in SECRETS:
        for match in pattern.finditer(text):
            word = match["word"]
            # Digits among letters, or long: no word that stands elsewhere with another meaning.
            if not is_no_secret(word) and (len(word) > 15 or (len(word) > 5 and re.search(r"\d", word))):
                yield Kind.SECRET, word


def host(name: str) -> Iterator[tuple[Kind, str]]:
    """What a host's name teaches."""
    first, _, domain = name.partition(".")
    if re.fullmatch(r"[\d.]+", name) or name.lower() in LEVELS:
        return
    yield Kind.HOST, first
    yield from _domains(domain)


def _domains(name: str) -> Iterator[tuple[Kind, str]]:
    """The domain and those that it lies in, down to the one that somebody owns."""
    while "." in name:
        yield Kind.DOMAIN, name
        name = name.partition(".")[2]


def _csv(text: str) -> Iterator[tuple[Kind, str]]:
    """Serial numbers in a column of nvidia-smi's CSV."""
    column = None
    for line in text.split("\n"):
        if len(line) > 4000:
            continue
        if _CSV_SERIAL.search(line):
            names = line.split(", ")
            column = next(at for at, name in enumerate(names) if name in ("serial", "gpu_serial"))
        elif line.startswith("=== "):
            column = None
        elif column is not None:
            cells = line.split(", ")
            if len(cells) > column and re.fullmatch(r"\w{6,40}", cells[column]):
                yield Kind.SERIAL, cells[column]
