"""The body of each control frame: compact JSON, eight bytes, or nothing. One row for each kind, both directions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeAlias

from pdwire import strictjson
from pdwire.dtypes import DType
from pdwire.errors import LocalProtocolError
from pdwire.frames import (
    DIGEST_BYTES,
    MAX_META,
    MAX_REASON,
    NONCE_BYTES,
    SECRET_ID_BYTES,
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
    Locate,
    Ping,
    Places,
    Proof,
    Role,
    Scalar,
    Security,
)
from pdwire.layout import Attention, ByteOrder, Layout
from pdwire.limits import Offer
from pdwire.outcome import Conversion
from pdwire.record import MAX_KV_SCALES, MAX_ROPE_LIST, CompatRecord, RopeValue
from pdwire.strictjson import Fields
from pdwire.validate import finite, member, text

_CREDIT = struct.Struct("<Q")
_STRIDES = struct.Struct("<QQ")
_RUN = struct.Struct("<QQ")
_CHALLENGE = struct.Struct(f"<BB{NONCE_BYTES}s")
_PROOF = struct.Struct(f"<{SECRET_ID_BYTES}s{NONCE_BYTES}s{DIGEST_BYTES}s{DIGEST_BYTES}s")
_JOIN = struct.Struct("<16sHH")
_U64 = (1 << 64) - 1


def encode(frame: Frame) -> bytes:
    """The body of a control frame."""
    match frame:
        case Challenge():
            ids = frame.secret_ids
            return _CHALLENGE.pack(frame.security, len(ids), frame.nonce) + b"".join(ids)
        case Proof():
            return _PROOF.pack(frame.secret_id, frame.nonce, frame.hello, frame.mac)
        case Hello():
            record = asdict(frame.record) | {"dtype": frame.record.dtype.label}
            hello: dict[str, object] = {"role": frame.role, "record": record, "offer": asdict(frame.offer)}
            return strictjson.dump(hello | ({"converts": frame.converts} if frame.converts else {}))
        case FirstToken():
            return strictjson.dump(
                {
                    "token": frame.token,
                    "prompt_tokens": frame.prompt_tokens,
                    "logprob": frame.logprob,
                    "finish_reason": frame.finish_reason,
                    "meta": dict(frame.meta),
                }
            )
        case Abort():
            return strictjson.dump({"code": frame.code, "reason": frame.reason})
        case Credit():
            return _CREDIT.pack(frame.total)
        case Join():
            return _JOIN.pack(frame.session, frame.stream, frame.streams)
        case Places():
            return _STRIDES.pack(frame.layer_stride, frame.part_stride) + b"".join(
                _RUN.pack(*run) for run in frame.runs
            )
        case _:
            return b""


def decode(kind: Kind, request: bytes, body: bytes) -> Frame:
    """Raises LocalProtocolError on any body that `encode` would not have written for some frame."""
    return _DECODE[kind](request, body)


def _hello(request: bytes, body: bytes) -> Hello:
    fields = strictjson.load("hello", body)
    role = member("role", Role, fields.text("role", 16))
    hello = Hello(
        role=role,
        record=_record(fields.fields("record")),
        offer=_offer(fields.fields("offer")),
        converts=_converts(fields.items("converts", len(Conversion))) if "converts" in fields else (),
    )
    fields.end()
    return hello


def _converts(names: list[object]) -> tuple[Conversion, ...]:
    if not names:
        raise LocalProtocolError("hello converts is left out where it is empty")
    return tuple(member("conversion", Conversion, name) for name in names)


def _record(fields: Fields) -> CompatRecord:
    record = CompatRecord(
        name=fields.text("name", 128),
        model_digest=fields.text("model_digest", 128),
        tokenizer_digest=fields.text("tokenizer_digest", 128),
        rope={key: _rope(key, value) for key, value in fields.fields("rope").rest().items()},
        layers=fields.integer("layers", 1, _U64),
        kv_heads=fields.integer("kv_heads", 1, _U64),
        head_dim=fields.integer("head_dim", 1, _U64),
        dtype=DType.from_label(fields.text("dtype", 32)),
        engine=fields.text("engine", 128),
        engine_version=fields.text("engine_version", 128),
        attention_backend=fields.text("attention_backend", 128),
        capacity_tokens=fields.integer("capacity_tokens", 1, _U64),
        transports=tuple(text("transport", name, 32) for name in fields.items("transports", 16)),
        kv_scales=tuple(finite("kv scale", scale) for scale in fields.items("kv_scales", MAX_KV_SCALES)),
        attention=member("attention", Attention, fields.text("attention", 32)),
        layout=member("layout", Layout, fields.text("layout", 32)),
        byte_order=member("byte order", ByteOrder, fields.text("byte_order", 16)),
        isa_layout=fields.text("isa_layout", 32),
        tp_size=fields.integer("tp_size", 1, _U64),
        tp_rank=fields.integer("tp_rank", 0, _U64),
        block_tokens=fields.integer("block_tokens", 1, _U64),
        protocol=fields.integer("protocol", 1, 255),
    )
    fields.end()
    return record


def _rope(key: str, value: object) -> RopeValue:
    text("rope key", key, 64)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list) and len(value) <= MAX_ROPE_LIST:
        return tuple(finite(f"rope {key}", number) for number in value)
    raise LocalProtocolError(f"rope {key} must be a scalar or a list of at most {MAX_ROPE_LIST} numbers")


def _offer(fields: Fields) -> Offer:
    offer = Offer(
        max_frame_bytes=fields.integer("max_frame_bytes", 1, _U64),
        credit_bytes=fields.integer("credit_bytes", 1, _U64),
        max_requests=fields.integer("max_requests", 1, _U64),
        idle_s=fields.number("idle_s"),
    )
    fields.end()
    return offer


def _first_token(request: bytes, body: bytes) -> FirstToken:
    fields = strictjson.load("first token", body)
    logprob, reason, meta = fields.take("logprob"), fields.take("finish_reason"), fields.fields("meta").rest()
    if len(meta) > MAX_META:
        raise LocalProtocolError(f"meta must have at most {MAX_META} keys: {len(meta)}")
    done = FirstToken(
        request=request,
        token=fields.integer("token", 0, _U64),
        prompt_tokens=fields.integer("prompt_tokens", 1, _U64),
        logprob=None if logprob is None else finite("logprob", logprob),
        finish_reason=None if reason is None else text("finish reason", reason, 32),
        meta={key: _meta(key, value) for key, value in meta.items()},
    )
    fields.end()
    return done


def _meta(key: str, value: object) -> Scalar:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise LocalProtocolError(f"meta {key[:64]!r} must be a scalar")


def _abort(request: bytes, body: bytes) -> Abort:
    fields = strictjson.load("abort", body)
    code = member("abort code", AbortCode, fields.integer("code", 0, 0xFFFF))
    abort = Abort(request=request, code=code, reason=fields.text("reason", MAX_REASON))
    fields.end()
    return abort


def _credit(request: bytes, body: bytes) -> Credit:
    if len(body) != _CREDIT.size:
        raise LocalProtocolError(f"credit has a body of {_CREDIT.size} bytes: {len(body)}")
    return Credit(total=_CREDIT.unpack(body)[0])


def _complete(request: bytes, body: bytes) -> Complete:
    _empty("complete", body)
    return Complete(request=request)


def _locate(request: bytes, body: bytes) -> Locate:
    _empty("locate", body)
    return Locate(request=request)


def _places(request: bytes, body: bytes) -> Places:
    if len(body) <= _STRIDES.size or (len(body) - _STRIDES.size) % _RUN.size:
        raise LocalProtocolError(f"places has strides and whole runs of {_RUN.size} bytes: {len(body)}")
    layer_stride, part_stride = _STRIDES.unpack_from(body)
    runs = tuple(_RUN.iter_unpack(memoryview(body)[_STRIDES.size :]))
    return Places(request=request, layer_stride=layer_stride, part_stride=part_stride, runs=runs)


def _challenge(request: bytes, body: bytes) -> Challenge:
    if len(body) < _CHALLENGE.size:
        raise LocalProtocolError(f"challenge has at least {_CHALLENGE.size} bytes: {len(body)}")
    security, count, nonce = _CHALLENGE.unpack_from(body)
    if len(body) != _CHALLENGE.size + count * SECRET_ID_BYTES:
        raise LocalProtocolError(f"challenge with {count} secrets has another length: {len(body)}")
    ids = tuple(body[at : at + SECRET_ID_BYTES] for at in range(_CHALLENGE.size, len(body), SECRET_ID_BYTES))
    return Challenge(security=member("security", Security, security), nonce=nonce, secret_ids=ids)


def _proof(request: bytes, body: bytes) -> Proof:
    if len(body) != _PROOF.size:
        raise LocalProtocolError(f"proof has a body of {_PROOF.size} bytes: {len(body)}")
    secret_id, nonce, hello, mac = _PROOF.unpack(body)
    return Proof(secret_id=secret_id, nonce=nonce, hello=hello, mac=mac)


def _join(request: bytes, body: bytes) -> Join:
    if len(body) != _JOIN.size:
        raise LocalProtocolError(f"join has a body of {_JOIN.size} bytes: {len(body)}")
    session, stream, streams = _JOIN.unpack(body)
    return Join(session=session, stream=stream, streams=streams)


def _ping(request: bytes, body: bytes) -> Ping:
    _empty("ping", body)
    return Ping()


def _bye(request: bytes, body: bytes) -> Bye:
    _empty("bye", body)
    return Bye()


def _empty(name: str, body: bytes) -> None:
    if body:
        raise LocalProtocolError(f"{name} has no body: {len(body)} bytes")


_Decoder: TypeAlias = Callable[[bytes, bytes], Frame]
_DECODE: dict[Kind, _Decoder] = {
    Kind.HELLO: _hello,
    Kind.FIRST_TOKEN: _first_token,
    Kind.COMPLETE: _complete,
    Kind.ABORT: _abort,
    Kind.CREDIT: _credit,
    Kind.PING: _ping,
    Kind.BYE: _bye,
    Kind.LOCATE: _locate,
    Kind.PLACES: _places,
    Kind.CHALLENGE: _challenge,
    Kind.PROOF: _proof,
    Kind.JOIN: _join,
}
