"""When a unit that ended is started again, and when not: pure, so that it can be read and tested on its own."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field


class RestartPolicy(BaseModel):
    """The first exit inside the window: started again at once, for streams wait for it. After the n-th:
    first_delay_s · 2^(n-2), at most max_delay_s. None after `limit` restarts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_delay_s: float = Field(default=0.5, ge=0)
    max_delay_s: float = Field(default=30.0, gt=0)
    limit: int = Field(default=5, ge=1)
    window_s: float = Field(default=300.0, gt=0)

    def delay(self, exits: Sequence[float], now: float) -> float | None:
        """Seconds to wait before the next start; None to give up. exits: when the unit ended, `now` among them."""
        recent = sum(1 for at in exits if now - at <= self.window_s)
        if recent > self.limit:
            return None
        return min(self.first_delay_s * 2.0 ** (recent - 2), self.max_delay_s) if recent > 1 else 0.0
