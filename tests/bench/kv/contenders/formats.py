"""Formats that a program would reach for first, each over one plain socket, a message for each frame."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable

import numpy as np
from tests.bench.kv.contender import Contender
from tests.bench.kv.sockets import FormatReceiver, FormatSender
from tests.bench.kv.workload import Job

Encode = Callable[[memoryview, memoryview], bytes]
Decode = Callable[[bytearray], tuple[memoryview, memoryview]]


def json_format(job: Job) -> tuple[Encode, Decode]:
    """Numbers as text, each as the shortest that gives back the same float32."""
    wide = job.workload.dtype == "float32"

    def encode(key: memoryview, value: memoryview) -> bytes:
        return json.dumps({"k": numbers(key, wide), "v": numbers(value, wide)}).encode()

    def decode(message: bytearray) -> tuple[memoryview, memoryview]:
        found = json.loads(message)
        return elements(found["k"], wide), elements(found["v"], wide)

    return encode, decode


def numbers(part: memoryview, wide: bool) -> list[float]:
    """Of float32 elements, or of bfloat16 ones, which float32 holds exactly."""
    values = np.frombuffer(part, "<f4") if wide else (np.frombuffer(part, "<u2").astype("<u4") << 16).view("<f4")
    return list(values.tolist())


def elements(values: list[float], wide: bool) -> memoryview:
    bits = np.asarray(values, "<f4").view("<u4")
    return memoryview((bits if wide else (bits >> 16).astype("<u2")).view(np.uint8))


def pickle_format(job: Job) -> tuple[Encode, Decode]:
    """Protocol 5, as `pickle.dumps` gives it: the receiver trusts the sender with its life."""

    def encode(key: memoryview, value: memoryview) -> bytes:
        return pickle.dumps((np.frombuffer(key, np.uint8), np.frombuffer(value, np.uint8)), protocol=5)

    def decode(message: bytearray) -> tuple[memoryview, memoryview]:
        key, value = pickle.loads(message)  # noqa: S301
        return memoryview(key), memoryview(value)

    return encode, decode


def msgpack_format(job: Job) -> tuple[Encode, Decode]:
    import msgpack

    def encode(key: memoryview, value: memoryview) -> bytes:
        return bytes(msgpack.packb({"k": key, "v": value}))

    def decode(message: bytearray) -> tuple[memoryview, memoryview]:
        found = msgpack.unpackb(message)
        return memoryview(found["k"]), memoryview(found["v"])

    return encode, decode


def protobuf_format(job: Job) -> tuple[Encode, Decode]:
    """A message with two `bytes` fields, by the compiled-in implementation of the package."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="kv.proto", package="kv", syntax="proto3")
    described = file.message_type.add(name="Layer")
    for number, name in ((1, "k"), (2, "v")):
        described.field.add(
            name=name,
            number=number,
            type=descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    layer = message_factory.GetMessageClass(pool.FindMessageTypeByName("kv.Layer"))

    def encode(key: memoryview, value: memoryview) -> bytes:
        return bytes(layer(k=bytes(key), v=bytes(value)).SerializeToString())

    def decode(message: bytearray) -> tuple[memoryview, memoryview]:
        found = layer.FromString(bytes(message))
        return memoryview(found.k), memoryview(found.v)

    return encode, decode


def safetensors_format(job: Job) -> tuple[Encode, Decode]:
    from safetensors.numpy import load, save

    def encode(key: memoryview, value: memoryview) -> bytes:
        return bytes(save({"k": np.frombuffer(key, np.uint8), "v": np.frombuffer(value, np.uint8)}))

    def decode(message: bytearray) -> tuple[memoryview, memoryview]:
        found = load(bytes(message))
        return memoryview(found["k"]), memoryview(found["v"])

    return encode, decode


def contender(
    name: str, make: Callable[[Job], tuple[Encode, Decode]], limit: int | None = None, note: str = ""
) -> Contender:
    return Contender(
        name,
        lambda job: FormatReceiver(job, make(job)[1]),
        lambda job, address: FormatSender(job, address, make(job)[0]),
        limit=limit,
        note=note,
    )


CONTENDERS = [
    contender("JSON", json_format, limit=8 << 20, note="8 MiB of it: the whole would take minutes"),
    contender("pickle 5", pickle_format),
    contender("msgpack", msgpack_format),
    contender("protobuf bytes", protobuf_format),
    contender("safetensors", safetensors_format),
]
