"""Variables of a host, added to the file beside the inventory that Ansible reads them from. What stands there stays as it is."""

import contextlib
import difflib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_HEAD = "# Found by `pdctl inventory discover`.\n"
_VAULT = "$ANSIBLE_VAULT"
_LARGEST = 1 << 20
_OF_A_FOLDER = "discovered.yml"


@dataclass(frozen=True, slots=True)
class Edit:
    """path: relative to the inventory's folder in `diff`. before: None where there is no file yet."""

    path: Path
    before: str | None
    after: str
    diff: str


class NotWritable(ValueError):
    """Why nothing can be added to the file of a host; the text names it and says what to do."""


class _Loader(yaml.SafeLoader):
    """With Ansible's own tags (`!vault`, `!unsafe`), whose values are only compared."""


_Loader.add_multi_constructor("!", lambda _loader, suffix, node: (suffix, str(node.value)))


def edit(folder: Path, host: str, additions: Mapping[str, Any]) -> Edit:
    """What adding the variables would change. folder: of the inventory.

    Raises NotWritable.
    """
    if host in (".", "..") or "/" in host or "\0" in host:
        raise NotWritable(f"a host called `{host}` can have no file of its own; give it a plain name")
    path = _file(folder / "host_vars", host)
    block = "".join(_lines(name, value) for name, value in additions.items())
    before = _text(path, block)
    after = (
        f"{_HEAD}{block}"
        if before is None
        else f"{before}{'' if before.endswith(chr(10)) or not before else chr(10)}{block}"
    )
    _refuse_garbled(path, before, after, additions, block)
    shown = str(path.relative_to(folder))
    lines = difflib.unified_diff(
        (before or "").splitlines(keepends=True),
        after.splitlines(keepends=True),
        "/dev/null" if before is None else f"a/{shown}",
        f"b/{shown}",
    )
    return Edit(path, before, after, "".join(lines).rstrip("\n"))


def write(edits: list[Edit]) -> None:
    """Each file whole or not at all. Raises OSError, and NotWritable where a file is not what the edit was made from."""
    for each in edits:
        target = each.path.resolve()
        if (target.read_text(encoding="utf-8") if target.exists() else None) != each.before:
            raise NotWritable(f"`{each.path}` changed meanwhile; run it again")
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o644
        descriptor, partial = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(each.after)
            Path(partial).chmod(mode)
            Path(partial).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(partial).unlink()
            raise


def _lines(name: str, value: Any) -> str:
    """A variable of a block mapping; of a list one item a line."""
    if not isinstance(value, list):
        return yaml.safe_dump({name: value}, allow_unicode=True, default_flow_style=False)
    items = (
        yaml.safe_dump(item, allow_unicode=True, sort_keys=False, default_flow_style=True, width=1000) for item in value
    )
    return f"{name}:\n" + "".join(f"  - {item}" for item in items)


def _file(folder: Path, host: str) -> Path:
    """The one that Ansible reads already, in its own order; else a new one."""
    plain = folder / host
    if plain.is_dir():
        return plain / _OF_A_FOLDER
    for path in (folder / f"{host}.yml", folder / f"{host}.yaml", plain):
        if path.is_file():
            return path
    if (folder / f"{host}.json").is_file():
        return folder / f"{host}.json"
    return folder / f"{host}.yml"


def _text(path: Path, block: str) -> str | None:
    if not path.exists():
        return None
    if path.suffix == ".json" or path.stat().st_size > _LARGEST:
        raise NotWritable(f"`{path}` is not YAML of a usual size; add by hand:\n{block}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotWritable(f"`{path}` cannot be read: {error}") from None
    if text.startswith(_VAULT):
        raise NotWritable(f"`{path}` is a vault; add with `ansible-vault edit`:\n{block}")
    return text


def _refuse_garbled(path: Path, before: str | None, after: str, additions: Mapping[str, Any], block: str) -> None:
    """Appended lines must say what they said alone: not behind `...`, nor in a file of one flow mapping."""
    try:
        # The loader derives from SafeLoader: it makes plain values only.
        former = yaml.load(before, _Loader) if before else None
        made = yaml.load(after, _Loader)
    except yaml.YAMLError:
        made, former = None, None
    if not isinstance(made, dict) or made != {**(former or {}), **additions}:
        raise NotWritable(f"`{path}` is of a form that nothing can be added to; add by hand:\n{block}")
