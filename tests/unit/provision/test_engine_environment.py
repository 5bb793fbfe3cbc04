"""Role engine: an environment from wheels alone, proven by an import, and kept whole beside its successor."""

import base64
import ensurepip
import hashlib
import json
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from tests.unit.provision.node_module import node_module

environment = node_module("engine", "pdctl_environment")
security = node_module("engine", "pdctl_unit_security")


def _wheel(folder: Path, name: str, version: str, content: str) -> None:
    """A wheel of one module (PEP 427)."""
    files = {
        f"{name}.py": content,
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text.encode())}")
    record = f"{name}-{version}.dist-info/RECORD"
    files[record] = "\n".join([*rows, f"{record},,"]) + "\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for wheel in (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"):
        shutil.copy(wheel, folder)
    return folder


Make = Callable[..., dict[str, Any]]


@pytest.fixture
def make(tmp_path: Path, wheelhouse: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(environment, "PYTHONS", (sys.executable,))

    def run(*, check: bool = False, minimum: str = "3.11") -> dict[str, Any]:
        asked = {
            "wheelhouse": str(wheelhouse), "prefix": str(tmp_path), "requirements": ["pdserve"],
            "minimum_python": minimum, "proof": "pdserve", "_ansible_check_mode": check,
        }  # fmt: skip
        with patch_module_args(asked), pytest.raises(SystemExit):
            environment.main()
        return dict(json.loads(capsys.readouterr().out))

    return run


def _environments(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("engine-*"))


def test_wheels_alone_make_an_environment_and_others_make_another(make: Make, tmp_path: Path, wheelhouse: Path) -> None:
    _wheel(wheelhouse, "pdserve", "1", "WHICH = 1\n")
    asked = make(check=True)
    assert _environments(tmp_path) == []
    made = make()
    assert (made["path"], made["problem"], made["changed"]) == (asked["path"], {}, True)
    assert _environments(tmp_path) == [made["path"]]
    assert make() == {**made, "changed": False}
    _wheel(wheelhouse, "pdserve", "2", "raise ImportError('no libcuda here')\n")
    broken = make()
    assert broken["changed"] is False and "no libcuda here" in broken["problem"]["message"]
    assert _environments(tmp_path) == [made["path"]]


def test_an_environment_that_was_not_finished_is_made_anew(make: Make, tmp_path: Path, wheelhouse: Path) -> None:
    _wheel(wheelhouse, "pdserve", "1", "")
    half = Path(make(check=True)["path"])
    half.mkdir()
    (half / "half").touch()
    assert make()["changed"] is True
    assert not (half / "half").exists() and (half / "bin/python").exists()


def test_what_is_missing_is_named(make: Make, wheelhouse: Path) -> None:
    assert "needs Python 9.9 or newer" in make(minimum="9.9")["problem"]["message"]
    lacking = make()
    assert "pdserve" in lacking["problem"]["message"] and lacking["changed"] is False
    shutil.rmtree(wheelhouse)
    assert "no wheels in" in make()["problem"]["message"]


def test_the_exposure_is_systemd_s_own_figure() -> None:
    said = "\n\u2192 Overall exposure level for pdctl-decode.service: 1.9 OK \U0001f642\n"
    assert security.exposure(said) == (1.9, "OK")
    assert security.exposure("Unknown command verb security.") is None
