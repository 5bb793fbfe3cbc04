"""Builds the roles and playbooks as an Ansible collection, `pdctl.nodes`, with `ansible-galaxy collection build`.

usage: build_collection.py [--out FOLDER]

In a collection, plugins stand beside the roles and not in them, module utilities have the collection's name in their import, and
filters are called by their full name. The checkout keeps the form that plain `ansible-playbook` reads; this lays out the other one.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE, NAME = "pdctl", "nodes"
FULL = f"{NAMESPACE}.{NAME}"
# Of a role, of a collection.
PLUGINS = {
    "library": "modules",
    "module_utils": "module_utils",
    "filter_plugins": "filter",
    "action_plugins": "action",
    "lookup_plugins": "lookup",
}
_UTILITY = re.compile(r"^from ansible\.module_utils(?P<inner>\.pdctl_\w+)? import (?P<what>.*)$", re.MULTILINE)
_FILTERS = re.compile(r"def filters\(self\):\s+return \{(?P<names>[^}]*)\}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the archive goes (dist)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pdctl-collection-") as scratch:
        folder = Path(scratch)
        lay_out(folder)
        options.out.mkdir(parents=True, exist_ok=True)
        galaxy = Path(sys.executable).with_name("ansible-galaxy")
        command = [str(galaxy), "collection", "build", str(folder), "--output-path", str(options.out), "--force"]
        return subprocess.run(command).returncode


def lay_out(folder: Path) -> None:
    """The collection's tree, from what git tracks and what lies new beside it."""
    for path in _content():
        relative = path.relative_to(ROOT)
        target = folder / relative
        if len(relative.parts) > 3 and relative.parts[2] in PLUGINS:
            target = folder / "plugins" / PLUGINS[relative.parts[2]] / Path(*relative.parts[3:])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    for path in sorted((folder / "plugins").rglob("*.py")):
        path.write_text(_UTILITY.sub(_import, path.read_text(encoding="utf-8")), encoding="utf-8")
    filters = [name for path in sorted((folder / "plugins" / "filter").glob("*.py")) for name in _filters(path)]
    for path in sorted(
        [*folder.glob("roles/**/*.yml"), *folder.glob("roles/**/*.j2"), *folder.glob("playbooks/*.yml")]
    ):
        text = path.read_text(encoding="utf-8")
        for name in filters:
            text = re.sub(rf"\|\s*{name}\b", f"| {FULL}.{name}", text)
        path.write_text(text, encoding="utf-8")
    _describe(folder)


def _content() -> Iterator[Path]:
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "roles", "playbooks", "LICENSE"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    yield from (path for name in done.stdout.splitlines() if (path := ROOT / name).is_file())


def _import(found: re.Match[str]) -> str:
    """A utility of ours; Ansible's own keep their place."""
    if found["inner"] or found["what"].startswith("pdctl_"):
        return f"from ansible_collections.{FULL}.plugins.module_utils{found['inner'] or ''} import {found['what']}"
    return found[0]


def _filters(path: Path) -> list[str]:
    found = _FILTERS.search(path.read_text(encoding="utf-8"))
    return re.findall(r"\"(\w+)\":", found["names"]) if found else []


def _describe(folder: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = {
        "namespace": NAMESPACE,
        "name": NAME,
        "version": _version(str(project.get("version") or _declared_version())),
        "readme": "README.md",
        "authors": ["pdctl"],
        "description": "Converges nodes to the policy of a prefill and decode fabric",
        "license_file": "LICENSE",
        "tags": ["infrastructure", "linux", "networking"],
    }
    (folder / "galaxy.yml").write_text(yaml.safe_dump(about, sort_keys=False), encoding="utf-8")
    (folder / "meta").mkdir()
    (folder / "meta" / "runtime.yml").write_text('requires_ansible: ">=2.16.0"\n', encoding="utf-8")
    page = (ROOT / "docs" / "collection.md").read_text(encoding="utf-8")
    # Its links lead to pages of the checkout.
    (folder / "README.md").write_text(re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", page), encoding="utf-8")


def _declared_version() -> str:
    text = (ROOT / "cli" / "pdctl" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    return found[1] if found else "0.0.0"


def _version(version: str) -> str:
    """Of the form that galaxy takes: 0.1.0.dev0 is 0.1.0-dev0."""
    return re.sub(r"^(\d+\.\d+\.\d+)\.?([a-z].*)$", r"\1-\2", version)


if __name__ == "__main__":
    sys.exit(main())
