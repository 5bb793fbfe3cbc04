"""Where the Ansible content lies: inside the wheel, or the checkout of an editable install."""

from importlib.resources import files
from pathlib import Path

_PACKAGE = Path(str(files("pdctl")))


def content_root() -> Path:
    """The folder that holds ansible.cfg, playbooks/, roles/ and inventories/sample/. Read-only by contract."""
    shipped = _PACKAGE / "_content"
    return shipped if shipped.is_dir() else _PACKAGE.parents[1]


def sample_inventory() -> Path:
    """An inventory to copy from; it is there in a checkout and in a wheel."""
    return content_root() / "inventories" / "sample"
