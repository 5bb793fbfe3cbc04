"""Whose fault it is: ours, theirs, or nobody's (two sound peers that cannot work together)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pdwire.compat import Verdict
    from pdwire.frames import LayerFrame


class WireError(Exception):
    """The root of every error this package raises."""


class LocalProtocolError(WireError):
    """This program did something that the protocol does not allow. Nothing was sent; the connection is still good."""


class RemoteProtocolError(WireError):
    """The peer sent something that the protocol does not allow. The connection is of no further use."""


class Unauthenticated(RemoteProtocolError):
    """The peer did not prove that it holds the deployment's secret. Nothing else that it says is looked at."""


class ChecksumMismatch(RemoteProtocolError):
    """The bytes of one KV frame are not those that were sent. Costs the frame's request, not the connection."""

    def __init__(self, frame: LayerFrame, got: int, want: int) -> None:
        super().__init__(f"checksum of {frame} is {got:#018x}, header says {want:#018x}")
        self.frame = frame


class IncompatiblePeer(WireError):
    """Both sides are sound and cannot work together; `verdict` names every reason, both values and the fix."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict
