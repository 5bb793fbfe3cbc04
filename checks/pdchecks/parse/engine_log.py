"""Logs of serving engines about the KV between a pair: a handshake that was refused, KV of another shape than expected.
Ours (pdwire's verdict, by field), vLLM's NIXL connector, and the words of tensor libraries."""

import re

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.log import HandshakeAccepted, HandshakeRefused, ShapeRefused
from pdchecks.parse.reader import Reader, lines_with, looks_like
from pdchecks.unknown import Unknown

# pdwire/compat.py, FieldVerdict: `fatal: dtype: prefill float16, decode bfloat16: reason; fix (either side): ...`
_FIELD = re.compile(r"fatal: (?P<field>\w{1,40}): prefill (?P<prefill>[^,;]{0,120}), decode (?P<decode>[^:;]{0,120}):")
_INCOMPATIBLE = re.compile(r"(?P<pair>[^\s\"]{1,60} -> \S{1,60}): incompatible; ")
# vllm/distributed/kv_transfer/kv_connector/v1/nixl: one hash over version, model, dtype, heads, layout and backend.
_HASH = re.compile(
    r"compatibility hash mismatch.{0,60}?[Ll]ocal[:=]\s*(?P<local>[0-9a-f]{6,128}).{0,60}?[Rr]emote[:=]\s*(?P<remote>[0-9a-f]{6,128})"
    r"|(?P<bare>compatibility hash mismatch|Failed to decode NixlHandshakePayload|[Hh]andshake failed for request.{0,80})"
)
# vllm nixl connector: what stopped one pair of workers; sglang/srt/disaggregation; the reason may stand elsewhere.
_BROKEN = re.compile(
    r"NIXL transfer failure: (?P<nixl>handshake_(?:setup_)?failed)"
    r"|(?P<sglang>Decode handshake failed for request.{0,200}|Could not fetch prefill parallel info.{0,80})"
)
_BLOCKS = re.compile(r"Local block size (?P<local>\d{1,6}) is not divisible by remote block size (?P<remote>\d{1,6})")
_FITS = re.compile(r"[^\s\"]{1,60} -> \S{1,60}: compatible\b.{0,200}|NIXL compatibility check passed.{0,100}")
_SHAPES = (
    # pdwire/kvshape.py, ShapeFault: `layer 3 kv_heads: expected 8, got 32: cause; change prefill: fix`
    re.compile(
        r"(?:layer \d{1,4}|all layers) (?P<field>[\w ]{1,30}): expected (?P<expected>.{1,100}?), "
        r"got (?P<got>[^:]{1,100}+): (?P<cause>[^;]{3,200}+); change (?P<side>prefill|decode|either side|both sides): (?P<fix>.{0,200})"
    ),
    # `expected shape [2, 8, 128], got [8, 2, 128]`, with or without the words around it
    re.compile(
        r"[Ee]xpected (?:KV )?(?:shape|dims?|dtype|tensor of shape)? ?(?:to be |of )?(?P<expected>[\[(][\d, ]{1,80}[\])]|(?:torch\.)?(?:b?float|fp|bf|int|uint)\w{1,12}).{0,40}?(?:got|but (?:was|received)|received|found)\W{1,3}(?:shape )?(?P<got>[\[(][\d, ]{1,80}[\])]|(?:torch\.)?(?:b?float|fp|bf|int|uint)\w{1,12})"
    ),
    # torch: view(), copy_() and matmul on another layout than the receiver's
    re.compile(r"shape '(?P<expected>\[[-\d, ]{1,80}\])' is invalid for input of size (?P<got>\d{1,15})"),
    re.compile(r"size of tensor a \((?P<expected>\d{1,12})\) must match the size of tensor b \((?P<got>\d{1,12})\)"),
    # vllm nixl connector's assertions
    re.compile(r"Remote (?:P worker )?KV layer cache must be of shape (?P<expected>\[[^\]]{1,120}\])(?P<got>)"),
)
# What stands in every line that one of the patterns above finds something in.
_MARK = re.compile(r"fatal: |ompatib|andshake|xpected|shape |size of tensor")
# A line about shapes counts only where it speaks of KV, or where the traceback around it does.
_ABOUT_KV = re.compile(r"\bkv|kv_|KV[ _-]?cache|key_cache|paged|decode|prefill|connector", re.IGNORECASE)
_LAYER = re.compile(r"\blayers?[ .=_](?P<layer>\d{1,4})\b")
_ENGINE = re.compile(r"pdctl-|pdserve|vllm|sglang|prefill|decode")
_SHAPE = re.compile(
    rf"fatal: \w+: prefill |: compatible\b|compatibility check passed|compatibility hash mismatch|NixlHandshakePayload|NIXL transfer failure: |Decode handshake failed|Could not fetch prefill parallel|Local block size |{'|'.join(re.sub(r'[?]P<[a-z]+>', '?:', p.pattern) for p in _SHAPES)}"
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    about_kv = _ABOUT_KV.search(block.output) is not None or _ABOUT_KV.search(block.command) is not None
    for line in lines_with(block, _MARK):
        facts += _handshake(block, line)
        if about_kv:
            facts += _shape(block, line)
    return facts


def _handshake(block: Block, line: str) -> list[Fact]:
    fields = list(_FIELD.finditer(line))
    if fields:
        pair = _INCOMPATIBLE.search(line)
        return [
            HandshakeRefused(
                quote=block.quote(match[0]),
                field=match["field"],
                prefill=match["prefill"].strip(),
                decode=match["decode"].strip(),
                words=pair["pair"] if pair else "",
            )
            for match in fields
        ]
    if refused := _HASH.search(line):
        return [
            HandshakeRefused(
                quote=block.quote(line.strip()),
                field="compatibility hash" if refused["local"] or "hash" in refused[0] else "",
                prefill=refused["remote"] or "",
                decode=refused["local"] or "",
                words=refused[0][:200],
            )
        ]
    if blocks := _BLOCKS.search(line):
        return [
            HandshakeRefused(
                quote=block.quote(line.strip()),
                field="block size",
                prefill=blocks["remote"],
                decode=blocks["local"],
                words=blocks[0],
            )
        ]
    if broken := _BROKEN.search(line):
        said = broken["nixl"] or broken["sglang"]
        return [HandshakeRefused(quote=block.quote(line.strip()), field="", prefill="", decode="", words=said)]
    if fits := _FITS.search(line):
        return [HandshakeAccepted(quote=block.quote(fits[0]), words=fits[0])]
    return []


def _shape(block: Block, line: str) -> list[Fact]:
    match = next((found for pattern in _SHAPES if (found := pattern.search(line))), None)
    if match is None:
        return []
    layer = _LAYER.search(line)
    return [
        ShapeRefused(
            quote=block.quote(line.strip()),
            layer=layer["layer"] if layer else "",
            expected=match["expected"],
            got=match["got"],
            words=match[0][:200],
            cause=f"{named['cause']}; change {named['side']}: {named['fix']}"
            if (named := match.groupdict()).get("cause")
            else "",
        )
    ]


def _claims(block: Block) -> bool:
    journal = "journalctl" in words(block.command) and _ENGINE.search(block.command) is not None
    file = "/logs/" in block.command and "/deployments/" in block.command
    return journal or file or looks_like(block, _SHAPE)


READER = Reader("engine log", _claims, parse, events=True)
