"""A proxy without exceptions."""

from collections.abc import Iterator

from pdchecks.finding import Status
from pdchecks.lint.rule import Rule
from pdchecks.lint.settings import variables
from pdchecks.lint.text import Hit, Text
from pdchecks.policy import Policy

_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_EXCEPT = ("no_proxy", "NO_PROXY")


def find(text: Text, policy: Policy) -> Iterator[Hit]:
    if not any(True for _ in variables(text, *_EXCEPT)):
        yield from (setting.hit() for setting in variables(text, *_PROXIES))


def _right(policy: Policy) -> str:
    return "NO_PROXY (and no_proxy) with the addresses of all nodes"


RULE = Rule(id="PD-LINT-035", title="A proxy without exceptions", status=Status.WARN, find=find, right=_right)
