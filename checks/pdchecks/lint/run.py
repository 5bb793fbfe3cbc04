"""Asks every rule about a text."""

from collections.abc import Sequence

from pdchecks.lint.registry import RULES
from pdchecks.lint.rule import Advice, Rule
from pdchecks.lint.text import Text
from pdchecks.policy import Policy


def lint(name: str, content: str, policy: Policy, rules: Sequence[Rule] = RULES) -> list[Advice]:
    """Bad advice in the order of the text. name: where it comes from; its ending tells the kind of text."""
    text = Text(name, content)
    found = [
        Advice(rule, name, hit, hit.right or rule.right(policy))
        for rule in rules
        for hit in dict.fromkeys(rule.find(text, policy))
    ]
    return sorted(found, key=lambda advice: (advice.hit.line, advice.hit.column, advice.rule.id))
