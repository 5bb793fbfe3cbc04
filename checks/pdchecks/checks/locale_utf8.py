"""The node's locale: whether it exists and gives UTF-8, proven by what `locale charmap` prints under it."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.converge import converge, of_family
from pdchecks.evidence import Quote
from pdchecks.facts.host import Charmap, LocaleList, LocaleRefused, LocaleSetting
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.parse.locale import canonical
from pdchecks.policy import Policy

_SESSION = "this session"
_VERIFY = ("locale -a", "LC_ALL=NAME locale charmap", "localectl status")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    files = [fact for fact in node.all(LocaleSetting) if fact.path != _SESSION]
    charmaps = {canonical(fact.locale): fact for fact in node.all(Charmap)}
    chosen = [(fact, _language(fact)) for fact in files]
    named = next(((fact, name) for fact, name in chosen if name), None)
    if named:
        yield _configured(*named, charmaps, node, policy)
    elif files:
        yield _nothing_configured(files, node, policy)
    else:
        yield from _pasted(charmaps, node, policy)
    yield from _refused(node, policy)


def _language(setting: LocaleSetting) -> str:
    """locale(7): LC_ALL beats LC_CTYPE beats LANG."""
    return next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := setting.values.get(name))), "")


def _configured(
    setting: LocaleSetting, name: str, charmaps: dict[str, Charmap], node: NodeFacts, policy: Policy
) -> Verdict:
    wanted = policy.values.locale.charmap
    proof = charmaps.get(canonical(name))
    where = f"{setting.path} sets {name}"
    quotes = (setting.quote, *((proof.quote,) if proof else ()))
    if proof is None:
        listed = [canonical(entry) for fact in node.all(LocaleList) for entry in fact.names]
        if listed and canonical(name) not in listed and canonical(name) not in ("c", "posix"):
            return _missing("node's locale", name, f"{where}, which `locale -a` does not list", quotes, node, policy)
        return Verdict(
            Status.UNKNOWN,
            "node's locale",
            f"not known whether the locale works: {where}, and it was not tried",
            "Only `locale charmap` under the locale proves it.",
            quotes,
            (f"LC_ALL={name} locale charmap",),
        )
    if proof.charmap == wanted and not proof.complaints:
        return Verdict(Status.PASS, "node's locale", f"{where}; its charmap is {proof.charmap}", quotes=quotes)
    return _missing(
        "node's locale", name, f"{where}; its charmap is {proof.charmap}, not {wanted}", quotes, node, policy
    )


def _nothing_configured(files: list[LocaleSetting], node: NodeFacts, policy: Policy) -> Verdict:
    return Verdict(
        Status.FAIL,
        "node's locale",
        f"{files[0].path} names no locale: logins and services speak the C locale, whose charmap is ASCII",
        "Python programs, yum and Ansible modules stop at the first byte above 0x7f in a path, a repository or a "
        "message.",
        tuple(fact.quote for fact in (*files, *node.all(LocaleList)))[:4],
        _VERIFY,
        _remedy(node, policy),
    )


def _pasted(charmaps: dict[str, Charmap], node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    """Only a session or single commands were shown."""
    wanted = policy.values.locale.charmap
    for proof in charmaps.values():
        subject = f"locale {proof.locale}" if proof.locale else "locale of the session"
        if proof.charmap == wanted and not proof.complaints:
            yield Verdict(Status.PASS, subject, f"{subject}: charmap is {proof.charmap}", quotes=(proof.quote,))
        elif proof.beaten:
            summary = f"LC_ALL={proof.locale} beats LANG={proof.beaten}: charmap is {proof.charmap}, not {wanted}"
            yield _missing(subject, proof.locale, summary, (proof.quote,), node, policy)
        elif canonical(proof.locale) in ("c", "posix"):
            continue
        else:
            summary = f"{subject}: charmap is {proof.charmap}, not {wanted}"
            yield _missing(subject, proof.locale or "the session's locale", summary, (proof.quote,), node, policy)


def _missing(
    subject: str, name: str, summary: str, quotes: tuple[Quote, ...], node: NodeFacts, policy: Policy
) -> Verdict:
    return Verdict(
        Status.FAIL,
        subject,
        summary,
        f"{name} is not installed on this node, or is no UTF-8 locale. The C library then falls back to the C locale, "
        "whose charmap ANSI_X3.4-1968 is plain ASCII, and `locale charmap` still exits 0.",
        quotes,
        _VERIFY,
        _remedy(node, policy),
    )


def _refused(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    for fact in node.all(LocaleRefused):
        named = fact.locale or "the locale of its environment"
        yield Verdict(
            Status.FAIL,
            f"locale {fact.locale}" if fact.locale else "locale of the session",
            f"{fact.program} could not use {named}",
            "That locale is not installed on the machine where the program ran; ssh carries LANG and LC_* from "
            "the client "
            "(SendEnv, AcceptEnv), so it may be the client's choice.",
            (fact.quote,),
            (*_VERIFY, "ssh -G HOST | grep -i sendenv"),
            _remedy(node, policy),
        )


def _remedy(node: NodeFacts, policy: Policy) -> Remedy:
    candidates = policy.values.locale.candidates
    listed = {canonical(entry) for fact in node.all(LocaleList) for entry in fact.names}
    name = next((candidate for candidate in candidates if canonical(candidate) in listed), candidates[0])
    return converge(
        "locale",
        "Take the first candidate of the policy that exists, generate one if none does, and prove it.",
        # A variable without a value is taken out of the file: both would beat LANG.
        of_family(
            node, debian=f"update-locale LC_ALL LC_CTYPE LANG={name}", redhat=f"localectl set-locale LANG={name}"
        ),
    )


CHECK = NodeCheck(
    id="PD-LOCALE-001",
    topic="locale.utf8",
    title="No UTF-8 locale",
    severity=Severity.MEDIUM,
    tools=("locale",),
    sources=("locale(7)", "glibc locale(1): a missing locale prints ANSI_X3.4-1968 with exit status 0", "PEP 538"),
    judge=judge,
)
