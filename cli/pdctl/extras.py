"""What of an extra is missing, and the command that installs it, which depends on where pdctl itself came from."""

import json
import re
import sys
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pdctl.errors import UsageError


def require(extra: str) -> None:
    """Raises UsageError, with the command that helps here, unless all that `extra` brings is installed."""
    try:
        pdctl = metadata.distribution("pdctl")
    except metadata.PackageNotFoundError:
        # Run from a folder of sources: nothing says what the extra is.
        return
    of_extra = re.compile(rf"([\w.-]+).*;.*extra == ['\"]{extra}['\"]")
    wanted = [found[1] for line in pdctl.requires or () if (found := of_extra.match(line))]
    missing = [name for name in wanted if not _is_there(name)]
    if missing:
        raise UsageError(
            f"this needs the extra `{extra}`, which is not installed",
            detail=f"not there: {', '.join(missing)}",
            hint=how_to_install(extra, _checkout(), _installed_from(pdctl)),
        )


def how_to_install(extra: str, checkout: Path | None, source: Path | None) -> str:
    """checkout: of an editable install. source: the wheel or folder that pip installed from, if it is still there."""
    if checkout is not None and Path(sys.prefix) == checkout / ".venv":
        return f"{checkout}/scripts/setup {extra}"
    if checkout is not None:
        return f"{sys.executable} -m pip install -e '{checkout}[{extra}]'"
    if source is not None:
        return f"{sys.executable} -m pip install '{source}[{extra}]'"
    return f"install the wheel again, this time with its extra: {sys.executable} -m pip install 'WHEEL[{extra}]'"


def _checkout() -> Path | None:
    root = Path(str(files("pdctl"))).parents[1]
    return root if (root / "pyproject.toml").is_file() else None


def _installed_from(pdctl: metadata.Distribution) -> Path | None:
    """What pip noted: https://packaging.python.org/en/latest/specifications/direct-url/."""
    noted = pdctl.read_text("direct_url.json")
    url = urlsplit(json.loads(noted)["url"]) if noted else None
    path = Path(unquote(url.path)) if url is not None and url.scheme == "file" else None
    return path if path is not None and path.exists() else None


def _is_there(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
