"""One kernel parameter against the policy's value."""

from pdchecks.check import Verdict
from pdchecks.converge import kernel_parameters
from pdchecks.facts.host import Sysctl
from pdchecks.finding import Status
from pdchecks.unknown import Unknown


def judge_value(fact: Sysctl, wanted: int | str, *, more_is_fine: bool, cause: str) -> Verdict:
    """more_is_fine: the last number is an upper bound of the kernel's, and a larger one does no harm."""
    want = " ".join(str(wanted).split())
    if isinstance(fact.value, Unknown):
        return Verdict(
            Status.UNKNOWN,
            fact.key,
            f"{fact.key} cannot be seen here: {fact.value.reason}",
            "In a network namespace other than the initial one the kernel hides keys that are the whole machine's.",
            (fact.quote,),
        )
    if fact.value == want or (more_is_fine and _last(fact.value) >= _last(want) >= 0):
        return Verdict(Status.PASS, fact.key, f"{fact.key} is {fact.value}", quotes=(fact.quote,))
    return Verdict(
        Status.WARN,
        fact.key,
        f"{fact.key} is {fact.value}; the policy wants {want}",
        cause,
        (fact.quote,),
        (f"sysctl {fact.key}", f"grep -rs '{fact.key}' /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d"),
        kernel_parameters("Record the policy's value for every boot, and apply it.", {fact.key: want}),
    )


def _last(value: str) -> int:
    """The largest of `min default max`, or the number; -1 where it is none."""
    word = value.split()[-1] if value.split() else ""
    return int(word) if word.isdecimal() else -1
