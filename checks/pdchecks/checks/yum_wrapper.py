"""safe_yum, the wrapper that gives yum and dnf a UTF-8 locale which this node has."""

from collections.abc import Iterator

from pdchecks.check import Need, NodeCheck, Verdict
from pdchecks.converge import converge
from pdchecks.facts.host import Charmap, YumWrapper
from pdchecks.finding import Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.parse.locale import canonical
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

_VERIFY = ("cat /usr/local/sbin/safe_yum", "safe_yum --version")
_REMEDY = converge("safe_yum", "Install the wrapper with a locale that exists.")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    proofs = {canonical(fact.locale): fact for fact in node.all(Charmap)}
    for wrapper in node.all(YumWrapper):
        if not wrapper.path:
            yield Verdict(
                Status.WARN,
                "safe_yum",
                "yum or dnf is here and the wrapper safe_yum is not",
                "Without it package installation runs in whatever locale the caller has, and may stop at a "
                "non-ASCII byte.",
                (wrapper.quote,),
                _VERIFY,
                _REMEDY,
            )
            continue
        if isinstance(wrapper.locale, Unknown):
            summary = f"not known which locale {wrapper.path} sets: {wrapper.locale.reason}"
            yield Verdict(Status.UNKNOWN, "safe_yum", summary, quotes=(wrapper.quote,), verify=_VERIFY)
            continue
        proof = proofs.get(canonical(wrapper.locale))
        if proof and (proof.complaints or proof.charmap != policy.values.locale.charmap):
            yield Verdict(
                Status.FAIL,
                "safe_yum",
                f"{wrapper.path} sets {wrapper.locale}, whose charmap here is {proof.charmap}",
                "The locale is not installed on this node: the wrapper does nothing.",
                (wrapper.quote, proof.quote),
                (*_VERIFY, f"LC_ALL={wrapper.locale} locale charmap"),
                _REMEDY,
            )
        else:
            yield Verdict(Status.PASS, "safe_yum", f"{wrapper.path} sets {wrapper.locale}", quotes=(wrapper.quote,))


CHECK = NodeCheck(
    id="PD-YUM-002",
    topic="yum.wrapper",
    title="yum runs without its wrapper",
    severity=Severity.LOW,
    tools=("safe_yum",),
    sources=("locale(7)", "yum(8)"),
    need=Need.YUM,
    judge=judge,
)
