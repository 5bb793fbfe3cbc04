"""Tools that speak another language than English: programs that read their words misunderstand them, or stop."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.host import CodecFailure, LocaleSetting, TranslatedMessage
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.repository_text import from_repository

# Languages in whose locale no tool translates.
_PLAIN = ("", "c", "posix", "en")
_VERIFY = ("locale", "LC_ALL=C COMMAND", "ssh -G HOST | grep -i sendenv")
_REMEDY = Remedy(
    "Run what is read by a program with LC_ALL=C or LC_MESSAGES=C; keep LC_CTYPE a UTF-8 locale. Do not let ssh carry "
    "the client's LANG and LC_* to the node.",
    commands=(
        "LC_MESSAGES=C LANGUAGE= COMMAND",
        "sed -i 's/^ *SendEnv LANG LC_/#&/' /etc/ssh/ssh_config",
        "pdctl provision INVENTORY --tags safe_yum",
    ),
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    translated = node.all(TranslatedMessage)
    if translated:
        languages = ", ".join(dict.fromkeys(fact.language for fact in translated))
        meanings = ", ".join(dict.fromkeys(f'"{fact.meaning}"' for fact in translated))
        yield Verdict(
            Status.WARN,
            "tool messages",
            f"messages are translated to {languages}: {meanings} is not in English",
            "The locale of the session (LC_MESSAGES, LANG, LANGUAGE) translates them. Programs that look for the "
            "English "
            "words, as older Ansible modules do, take them for failures or changes.",
            tuple(fact.quote for fact in translated[:4]),
            _VERIFY,
            _REMEDY,
        )
    for fact in node.all(CodecFailure):
        if fact.writing or not from_repository(fact, node):
            yield _stopped(fact)
    yield from _setting(node)


def _stopped(fact: CodecFailure) -> Verdict:
    what = "write a character of its own message" if fact.writing else "read a byte of a message"
    return Verdict(
        Status.FAIL,
        f"messages of {fact.program}",
        f"{fact.program} stopped: its ASCII codec cannot {what}",
        "Python 2, or Python 3 in the C locale without UTF-8 mode, mixes translated text with plain bytes, or "
        "prints to "
        "a stream that it takes for ASCII.",
        (fact.quote,),
        _VERIFY,
        _REMEDY,
    )


def _setting(node: NodeFacts) -> Iterator[Verdict]:
    for setting in node.all(LocaleSetting):
        name = next((setting.values[key] for key in ("LC_ALL", "LC_MESSAGES", "LANG") if setting.values.get(key)), None)
        if name is None:
            continue
        language = name.lower().split(".")[0].split("_")[0]
        if language in _PLAIN:
            yield Verdict(
                Status.PASS, f"messages by {setting.path}", f"{name}: tools speak English", quotes=(setting.quote,)
            )
        else:
            summary = f"{name}: tools translate their messages; pdctl asks them for English, other programs may not"
            yield Verdict(Status.INFO, f"messages by {setting.path}", summary, quotes=(setting.quote,))


CHECK = NodeCheck(
    id="PD-LOCALE-002",
    topic="locale.messages",
    title="Tools speak another language",
    severity=Severity.LOW,
    tools=("locale",),
    sources=(
        "https://github.com/ansible/ansible/issues/9635",
        "https://github.com/rpm-software-management/yum/issues/97",
        "locale(7), LC_MESSAGES",
    ),
    silence_passes=True,
    judge=judge,
)
