"""A description of a pair, as a YAML or JSON mapping, to its two sides.

    model: what both engines are told (a hub name or a path)     config: path of config.json or of a model directory
    engine: vllm 0.33.0                                           args: the command line, or its options alone
    prefill: {gpu: h100, args: ..., env: {...}, host: p0}         decode: {...}

Every key may stand at the top, for both, or in a side, which overrules; `env` and `args` of both are joined. The whole may
also stand below `pair:`, beside `ABOUT`, which nobody judges.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pdchecks.pair.command import Command, DescriptionError, parse_command
from pdchecks.pair.gpus import find_gpu
from pdchecks.pair.side import Side
from pdchecks.pair.version import Version, parse_version
from pdchecks.unknown import Unknown
from pdwire import Role


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What was found where `config` points. model, tokenizer: digests, or why there are none."""

    config: Mapping[str, Any]
    weights: str | Unknown
    tokenizer: str | Unknown


LoadModel = Callable[[str], ModelFiles]
"""Reads a path of a description. Raises DescriptionError."""

KEYS = {
    "model": "the name or path that the engine is told",
    "config": "path of a config.json or of a model directory, or the parsed file itself",
    "revision": "commit of the model's repository: stands for weights and tokenizer",
    "weights": "digest of the weights, any text that is equal where they are",
    "tokenizer": "digest of the tokenizer, likewise",
    "engine": "`torch` or `vllm`, with its version: `vllm 0.33.0`",
    "args": "the engine's command line as typed, or its options alone",
    "env": "environment variables of the engine",
    "gpu": "kind, family or nvidia-smi's name, or `cpu`",
    "host": "where it runs; only compared",
    "nixl": "version of NIXL",
    "isa": "instruction set of a CPU engine: `vec`, `amx` or `neon`",
}

EXAMPLE = """\
model: meta-llama/Llama-3.1-8B-Instruct
config: /models/llama-3.1-8b        # a model directory, or its config.json
engine: vllm 0.33.0
prefill: {gpu: h100, args: "--tensor-parallel-size 2", host: p0}
decode: {gpu: a100, args: "VLLM_KV_CACHE_LAYOUT=HND vllm serve /models/llama-3.1-8b -tp 4", host: d0}
"""
ABOUT = {
    "case": "what the pair is, in a few words",
    "report": "URLs where it was reported",
    "note": "what its author adds",
    "expect": "what its author expects of the verdict",
}


def describe(document: object, load: LoadModel) -> tuple[Side, Side]:
    """Prefill and decode. Raises DescriptionError."""
    if isinstance(document, Mapping) and "pair" in document:
        for key in document:
            if key != "pair" and key not in ABOUT:
                raise DescriptionError(f"unknown key {key!r} beside `pair` (known: {', '.join(ABOUT)})")
        document = document["pair"]
    if not isinstance(document, Mapping):
        raise DescriptionError("a description of a pair is a mapping with `prefill` and `decode`")
    top = {key: value for key, value in document.items() if key not in ("prefill", "decode")}
    _known_keys("the description", top)
    parts = {role: document.get(role.value) for role in Role}
    for role, own in parts.items():
        if not isinstance(own, Mapping):
            raise DescriptionError(f"the description has no `{role}` mapping")
        _known_keys(f"`{role}`", own)
    prefill, decode = (_side(role, top, parts[role] or {}, load) for role in (Role.PREFILL, Role.DECODE))
    return prefill, decode


def _known_keys(where: str, mapping: Mapping[str, Any]) -> None:
    for key in mapping:
        if key not in KEYS:
            raise DescriptionError(f"unknown key {reprlib.repr(key)} in {where} (known: {', '.join(KEYS)})")


def _side(role: Role, top: Mapping[str, Any], own: Mapping[str, Any], load: LoadModel) -> Side:
    values = {**top, **own}

    def text(key: str) -> str | None:
        value = values.get(key)
        if value is not None and not isinstance(value, str | int | float):
            raise DescriptionError(f"{role}: `{key}` must be text: {reprlib.repr(value)}")
        return None if value is None else str(value)

    command = parse_command(" ".join(str(part["args"]) for part in (top, own) if part.get("args")))
    model = command.model or text("model") or _told(top, own)
    files = _files(role, values.get("config"), load)
    engine, version = _engine(role, text("engine"))
    weights, tokenizer = _identity(files, command, text)
    gpu = text("gpu")
    nixl = text("nixl")
    return Side(
        role=role,
        engine=engine,
        version=version,
        gpu=find_gpu(gpu) if gpu else Unknown("which GPU is not said (`gpu:`)"),
        model=model,
        config=files.config,
        weights=weights,
        tokenizer=tokenizer,
        options=command.options,
        env={**_env(role, top), **command.env, **_env(role, own)},
        host=text("host") or Unknown("which host is not said (`host:`)"),
        nixl=parse_version(nixl) if nixl else Unknown("NIXL's version is not said (`nixl:`)"),
        isa=text("isa") or Unknown("which instruction set is not said (`isa:`)"),
    )


def _told(top: Mapping[str, Any], own: Mapping[str, Any]) -> str | Unknown:
    """One path for both sides is what both are told; two are where this machine keeps copies of them."""
    shared = top.get("config")
    if isinstance(shared, str) and "config" not in own:
        return shared
    return Unknown("the name or path that the engine is told is not said (`model:`, or in its command line)")


def _files(role: Role, config: object, load: LoadModel) -> ModelFiles:
    if isinstance(config, Mapping):
        unread = Unknown("only config.json was given")
        return ModelFiles(config, unread, unread)
    if not isinstance(config, str):
        raise DescriptionError(f"{role}: which model? (`config:` or `--model`: a model directory or its config.json)")
    return load(config)


def _engine(role: Role, named: str | None) -> tuple[str, Version | Unknown]:
    if named is None:
        raise DescriptionError(f"{role}: which engine? (`engine: vllm 0.33.0` or `engine: torch`)")
    name, _, version = re.sub(r"[=\s@:]+", " ", named.strip()).partition(" ")
    return name, parse_version(version) if version else Unknown(f"which version of {name} is not said")


def _identity(
    files: ModelFiles, command: Command, text: Callable[[str], str | None]
) -> tuple[str | Unknown, str | Unknown]:
    """What stands for weights and for tokenizer: said outright, a pinned commit, or found beside config.json."""
    revision = text("revision") or command.options.get("revision")
    commit = f"commit {revision}" if revision and re.fullmatch(r"[0-9a-f]{7,64}", revision) else None
    weights = text("weights") or commit or files.weights
    tokenizer = text("tokenizer") or commit or files.tokenizer
    other = command.options.get("tokenizer")
    if other is not None and text("tokenizer") is None:
        tokenizer = Unknown(f"`--tokenizer {other}` was not read (`tokenizer:` says its digest)")
    return weights, tokenizer


def _env(role: Role, part: Mapping[str, Any]) -> dict[str, str]:
    env = part.get("env") or {}
    if not isinstance(env, Mapping):
        raise DescriptionError(f"{role}: `env` must be a mapping of names to values")
    return {str(name): str(value) for name, value in env.items()}
