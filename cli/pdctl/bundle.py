"""A bundle: one tar file with the evidence of many nodes and a manifest. Written here, read by `evidence_source`.

manifest.json            schema pdctl.bundle/1
<node>/evidence.txt      what the node's collector printed
"""

import io
import json
import os
import platform
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote

from pdchecks.evidence import read_blocks
from pdchecks.redaction.redactor import Redactor
from pdctl import __version__
from pdctl.bundle_manifest import MANIFEST, SCHEMA
from pdctl.collection import Collected
from pdctl.errors import UsageError

# Evidence repeats itself; above this level it only gets slower.
_LEVEL = 9


def write(
    path: Path,
    nodes: Sequence[Collected],
    site_policy: Callable[[str], Mapping[str, Any]],
    *,
    interval_s: int,
    seconds: float,
    redactor: Redactor | None = None,
) -> None:
    """site_policy: by node, the values that differ from the shipped policy. redactor: cleans every text.

    The file is new and only its owner may read it. Raises UsageError where it exists, cannot be written, or has a
    suffix that names no format.
    """
    by = platform.node()
    if redactor is not None:
        redactor.learn("", [by, *(node.node for node in nodes)])
        for node in nodes:
            redactor.learn(f"{node.way}\n{node.text}")
    clean = redactor or (lambda text: text)
    call = redactor.node if redactor is not None else clean
    members: list[tuple[str, bytes]] = []
    entries: list[dict[str, Any]] = []
    for node in nodes:
        blocks = read_blocks(node.text)
        name = call(node.node)
        text = clean(node.text).encode("utf-8", "surrogateescape") if blocks else b""
        file = f"{_folder(name)}/evidence.txt" if blocks else ""
        entries.append(
            {
                "node": name,
                "way": clean(node.way),
                "file": file,
                "bytes": len(text),
                "collector": blocks[0].output if blocks and blocks[0].command == "pdctl-collect begin" else "",
                "reason": clean(node.incomplete.reason) if node.incomplete else "",
                "hint": clean(node.incomplete.hint) if node.incomplete else "",
                "policy": json.loads(clean(json.dumps(site_policy(node.node)))),
            }
        )
        if blocks:
            members.append((file, text))
    manifest = {
        "schema": SCHEMA,
        "pdctl": __version__,
        "python": platform.python_version(),
        "collected": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "interval_s": interval_s,
        "by": call(by),
        "redacted": redactor is not None,
        "nodes": entries,
    }
    head = json.dumps(manifest, indent=1, ensure_ascii=False).encode("utf-8", "surrogateescape")
    with _archive(path) as archive:
        for name, data in [(MANIFEST, head), *members]:
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
            archive.addfile(member, io.BytesIO(data))


def _folder(name: str) -> str:
    """A node's name as one folder, also where whoever unpacks the bundle would take it for a way out (`..`)."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


def refuse(path: Path) -> None:
    """Raises UsageError where no bundle can be written there, as far as that shows before it is."""
    _suffix(path)
    if os.path.lexists(path):
        raise UsageError(f"`{path}` is there already", hint="name a new file, or remove that one")
    if not path.parent.is_dir():
        raise UsageError(
            f"cannot write `{path}`", detail=f"`{path.parent}` is no folder", hint="make it, or name another"
        )


def _suffix(path: Path) -> str:
    suffix = next((known for known in _FORMATS if path.name.endswith(known)), None)
    if suffix is None:
        raise UsageError(f"`{path}` names no format", hint=f"end it with {', '.join(_FORMATS)}")
    return suffix


@contextmanager
def _archive(path: Path) -> Iterator[tarfile.TarFile]:
    suffix = _suffix(path)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise UsageError(f"`{path}` is there already", hint="name a new file, or remove that one") from error
    except OSError as error:
        raise UsageError(f"cannot write `{path}`", detail=str(error)) from error
    try:
        with ExitStack() as stack:
            stream = stack.enter_context(os.fdopen(descriptor, "wb"))
            whole = _FORMATS[suffix](stack, stream)
            yield stack.enter_context(tarfile.open(fileobj=whole, mode="w|", format=tarfile.PAX_FORMAT))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _zstd(stack: ExitStack, stream: IO[bytes]) -> IO[bytes]:
    import zstandard

    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    return cast(IO[bytes], stack.enter_context(compressor.stream_writer(stream, closefd=False)))


def _gzip(stack: ExitStack, stream: IO[bytes]) -> IO[bytes]:
    import gzip

    return cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=stream, mode="wb")))


_FORMATS: dict[str, Callable[[ExitStack, IO[bytes]], IO[bytes]]] = {
    ".tar.zst": _zstd,
    ".tar.gz": _gzip,
    ".tgz": _gzip,
    ".tar": lambda stack, stream: stream,
}
