"""The KV contract and its wire format: values, frames and a state machine. No sockets, no files, no torch."""

from pdwire.auth import SECRET_BYTES, Credentials, Secret
from pdwire.compat import FIELDS, Conversion, FieldVerdict, Outcome, Side, Verdict, verdict
from pdwire.connection import Connection, Incoming, Received
from pdwire.dtypes import DType
from pdwire.errors import (
    ChecksumMismatch,
    IncompatiblePeer,
    LocalProtocolError,
    RemoteProtocolError,
    Unauthenticated,
    WireError,
)
from pdwire.frames import (
    NONCE_BYTES,
    Abort,
    AbortCode,
    Bye,
    Challenge,
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
    Proof,
    Role,
    Security,
)
from pdwire.header import HEAD_BYTES, LayerHead
from pdwire.layout import UNPACKED, Attention, ByteOrder, Layout
from pdwire.limits import MAX_CONTROL_BYTES, MAX_FRAME_TOKENS, MAX_HANDSHAKE_BYTES, Limits, Offer
from pdwire.record import PROTOCOL_VERSION, CompatRecord
from pdwire.rules import dtype_conversion
from pdwire.sealing import Sealed, leave_open, seal
from pdwire.state import UNPROVEN, ConnectionState, RequestState
from pdwire.validate import CONNECTION, REQUEST_BYTES

__all__ = [
    "CONNECTION",
    "FIELDS",
    "HEAD_BYTES",
    "MAX_CONTROL_BYTES",
    "MAX_FRAME_TOKENS",
    "MAX_HANDSHAKE_BYTES",
    "NONCE_BYTES",
    "PROTOCOL_VERSION",
    "REQUEST_BYTES",
    "SECRET_BYTES",
    "UNPACKED",
    "UNPROVEN",
    "Abort",
    "AbortCode",
    "Attention",
    "Bye",
    "ByteOrder",
    "Challenge",
    "ChecksumMismatch",
    "CompatRecord",
    "Complete",
    "Connection",
    "ConnectionState",
    "Conversion",
    "Credentials",
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
    "Proof",
    "Received",
    "RemoteProtocolError",
    "RequestState",
    "Role",
    "Sealed",
    "Secret",
    "Security",
    "Side",
    "Unauthenticated",
    "Verdict",
    "WireError",
    "dtype_conversion",
    "leave_open",
    "seal",
    "verdict",
]
