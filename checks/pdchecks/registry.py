"""Every check, in the order a person would look: the link first, then what travels on it, then the host.

This list is the table of contents. An ID is never reused.
"""

from pdchecks.check import Check

CHECKS: tuple[Check, ...] = ()
BY_ID = {check.id: check for check in CHECKS}
