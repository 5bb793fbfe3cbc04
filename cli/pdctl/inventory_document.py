"""Runs Ansible's own loader over an inventory, in a child process: what it printed, or why it could not."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pdctl import inventory_reader
from pdctl.ansible_env import ansible_environment
from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode

DEADLINE_S = 120.0
_VAULT = re.compile(
    r"Attempting to decrypt but no vault secrets found|Decryption failed[^\n]*|The vault password file [^\n]* was not found"
)
_HINTS = {
    "script": "run it with `--list`: it must print one JSON object, and nothing else, and exit 0",
    "text of a script": "a dynamic inventory must be executable: `chmod +x`",
}


def read_document(
    source: Path, *, limit: str | None, variables: Mapping[str, Any] | None, deadline_s: float
) -> tuple[dict[str, Any], str]:
    """What `ansible-inventory --list` prints, and what it said on stderr. variables: of `-e`.

    Raises:
        UsageError: unreadable, or the limit selects nothing.
        PdError: it did not end within `deadline_s`.
    """
    return _read(source, limit=limit, variables=variables, deadline_s=deadline_s)


def exported_document(source: Path) -> dict[str, Any]:
    """What `ansible-inventory --list --export` prints: variables stay with the group or host that gives them."""
    return _read(source, export=True)[0]


def _read(
    source: Path,
    *,
    limit: str | None = None,
    export: bool = False,
    variables: Mapping[str, Any] | None = None,
    deadline_s: float = DEADLINE_S,
) -> tuple[dict[str, Any], str]:
    """What `ansible-inventory --list` prints, and what it said on stderr."""
    if not source.is_file() and not source.is_dir():
        raise UsageError(
            f"the inventory `{source}` is neither a file nor a folder",
            detail="it is read more than once, which a pipe or a device does not allow",
            hint="write it to a file first",
        )
    with tempfile.TemporaryDirectory(prefix="pdctl-") as private:
        return _read_in(Path(private), source, limit, export, variables, deadline_s)


def _read_in(
    private: Path,
    source: Path,
    limit: str | None,
    export: bool,
    variables: Mapping[str, Any] | None,
    deadline_s: float,
) -> tuple[dict[str, Any], str]:
    # Safe path: what lies beside the script is no module of the child.
    command = [sys.executable, "-P", inventory_reader.__file__, "-i", str(source.absolute()), "--list"]
    if export:
        command.append("--export")
    if limit:
        command.append(f"--limit={limit}")
    if variables:
        command += ["-e", f"@{_private_file(private, variables)}"]
    environment = ansible_environment() | {
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
        "ANSIBLE_DUPLICATE_YAML_DICT_KEY": "error",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        # Not below HOME, which may be absent or full.
        "ANSIBLE_LOCAL_TEMP": str(private / "tmp"),
    }
    try:
        # From `/`: a file of the working directory must not shadow a module of the child.
        child = subprocess.run(
            command, env=environment, cwd="/", capture_output=True, timeout=deadline_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise PdError(
            f"the inventory `{source}` was not read within {deadline_s:g} s",
            detail="a dynamic inventory that waits for its source?",
            code=ExitCode.INCOMPLETE,
        ) from error
    said = child.stderr.decode("utf-8", errors="replace")
    if child.returncode != 0:
        raise _unreadable(source, limit, said)
    document: dict[str, Any] = json.loads(child.stdout, object_hook=_plain)
    return document, said


def _plain(mapping: dict[str, Any]) -> Any:
    """Ansible wraps a text that a template made, or a script gave, to mark that it is no template."""
    return mapping["__ansible_unsafe"] if mapping.keys() == {"__ansible_unsafe"} else mapping


def _private_file(folder: Path, variables: Mapping[str, Any]) -> Path:
    path = folder / "variables.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        json.dump(variables, stream, ensure_ascii=False)
    return path


def warnings(said: str) -> Iterator[str]:
    """Our own notes, then Ansible's warnings, which it breaks into lines."""
    for line in dict.fromkeys(said.splitlines()):
        if line.startswith(inventory_reader.NOTE):
            yield line.removeprefix(inventory_reader.NOTE)
    for text in re.findall(r"^\[WARNING\]: (.*(?:\n(?!\[|\s*$).*)*)", said, flags=re.MULTILINE):
        words = " ".join(line for line in text.splitlines() if not line.startswith(inventory_reader.NOTE)).split()
        yield " ".join(words)


def _unreadable(source: Path, limit: str | None, said: str) -> UsageError:
    if limit and ("limit" in said or "pattern" in said) and "parse inventory" not in said:
        return UsageError(f"`--limit {limit}` selects nothing in `{source}`", detail=_first_sentence(said))
    if closed := _VAULT.search(said):
        return UsageError(
            f"a vault of the inventory `{source}` cannot be opened",
            detail=closed[0],
            hint="name the file with its password in ANSIBLE_VAULT_PASSWORD_FILE",
        )
    kind = _kind(source)
    reported = re.search(rf"Failed to parse inventory with '{kind}' plugin: (?P<why>.*(?:\n.+)*)", said)
    why = reported["why"].splitlines()[0] if reported else _first_sentence(said)
    complaint = re.search(r"Standard error from inventory script:\n(?P<first>.+)", said) if kind == "script" else None
    origin = re.search(rf"Origin: {re.escape(str(source.absolute()))}:(?P<line>\d+)", said)
    if origin is None and kind == "ini" and source.is_file():
        origin = re.search(rf"^{inventory_reader.LINE}(?P<line>\d+)$", said, flags=re.MULTILINE)
    line = int(origin["line"]) if origin else None
    return UsageError(
        f"cannot read the inventory `{source}`" + (f", line {line}" if line else ""),
        detail=why.removeprefix("Failed to parse inventory: ")
        + (f"\nit said: {complaint['first']}" if complaint else ""),
        hint=_HINTS.get(kind, "`ansible-inventory -i INVENTORY --list` reads it the same way"),
    )


def _kind(source: Path) -> str:
    """The plugin of Ansible that is meant to read it; `text of a script` where only its mode is wrong."""
    if not source.is_file():
        return "ini"
    with source.open("rb") as stream:
        script = stream.read(2) == b"#!"
    if script:
        return "script" if os.access(source, os.X_OK) else "text of a script"
    return "yaml" if source.suffix in (".yml", ".yaml", ".json") else "ini"


def _first_sentence(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("pdctl-inventory-")]
    errors = [line for line in lines if line.startswith(("ERROR", "[ERROR]"))]
    return (errors or lines or ["ansible-inventory said nothing"])[0]
