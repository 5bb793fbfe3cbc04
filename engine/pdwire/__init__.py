"""The KV contract and its wire format: values, frames and a state machine. No sockets, no files, no torch."""

from pdwire.compat import FIELDS, Conversion, FieldVerdict, Outcome, Side, Verdict, verdict
from pdwire.connection import Connection, Incoming, Received
from pdwire.dtypes import DType
from pdwire.errors import ChecksumMismatch, IncompatiblePeer, LocalProtocolError, RemoteProtocolError, WireError
from pdwire.frames import (
    Abort,
    AbortCode,
    Bye,
    Complete,
    Credit,
    FirstToken,
    Frame,
    Hello,
    Join,
    Kind,
    LayerFrame,
    Locate,
    Part,
    Ping,
    Places,
    Role,
)
from pdwire.header import HEAD_BYTES, LayerHead
from pdwire.layout import UNPACKED, Attention, ByteOrder, Layout
from pdwire.limits import MAX_CONTROL_BYTES, MAX_FRAME_TOKENS, Limits, Offer
from pdwire.record import PROTOCOL_VERSION, CompatRecord
from pdwire.sealing import Sealed, leave_open, seal
from pdwire.state import ConnectionState, RequestState
from pdwire.validate import CONNECTION, REQUEST_BYTES

__all__ = [
    "CONNECTION",
    "FIELDS",
    "HEAD_BYTES",
    "MAX_CONTROL_BYTES",
    "MAX_FRAME_TOKENS",
    "PROTOCOL_VERSION",
    "REQUEST_BYTES",
    "UNPACKED",
    "Abort",
    "AbortCode",
    "Attention",
    "Bye",
    "ByteOrder",
    "ChecksumMismatch",
    "CompatRecord",
    "Complete",
    "Connection",
    "ConnectionState",
    "Conversion",
    "Credit",
    "DType",
    "FieldVerdict",
    "FirstToken",
    "Frame",
    "Hello",
    "Incoming",
    "IncompatiblePeer",
    "Join",
    "Kind",
    "LayerFrame",
    "LayerHead",
    "Layout",
    "Limits",
    "LocalProtocolError",
    "Locate",
    "Offer",
    "Outcome",
    "Part",
    "Ping",
    "Places",
    "Received",
    "RemoteProtocolError",
    "RequestState",
    "Role",
    "Sealed",
    "Side",
    "Verdict",
    "WireError",
    "leave_open",
    "seal",
    "verdict",
]
