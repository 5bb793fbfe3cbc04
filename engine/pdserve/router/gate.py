"""Whether clients are let in: closed until the canary has passed, and whenever an operator closes it."""

from dataclasses import dataclass


@dataclass
class Gate:
    is_open: bool = False
    reason: str = "warming up: waiting for the canary"

    def open(self) -> None:
        self.is_open, self.reason = True, ""

    def close(self, reason: str) -> None:
        self.is_open, self.reason = False, reason

    def state(self) -> dict[str, str]:
        return {"status": "open"} if self.is_open else {"status": "closed", "reason": self.reason}
