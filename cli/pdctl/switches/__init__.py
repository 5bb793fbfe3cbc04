"""The switches' side of the policy. `settings` takes it out of a policy, one module a language prints it; no switch is asked.

A language is a function from `SwitchSide` and port names to `Printed`, and one line in `LANGUAGES`.
"""

from collections.abc import Callable, Mapping, Sequence

from pdctl.switches import nvue, sonic, text
from pdctl.switches.settings import Printed, SwitchSide

LANGUAGES: Mapping[str, Callable[[SwitchSide, Sequence[str]], Printed]] = {
    "sonic": sonic.printed,
    "nvue": nvue.printed,
    "text": text.printed,
}
