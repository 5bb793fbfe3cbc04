from pathlib import Path

import pytest

from pdctl.deploy import spec
from pdctl.errors import UsageError


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "pdctl.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_flag_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    file = _file(tmp_path, "router: {port: 9000}\npools: {prefill: {kind: h100, threads: 4}}\n")
    loaded = spec.load(file, {"router.port": None, "pools.prefill.kind": "cpu"})
    assert (loaded.router.port, loaded.router.host) == (9000, "127.0.0.1")
    assert (loaded.pools.prefill.kind, loaded.pools.prefill.threads) == ("cpu", 4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("modell: x\n", "modell"),
        ("router: {port: 99999}\n", "router.port"),
        ("router: {request_deadline_s: 0}\n", "router.request_deadline_s"),
        ("engine: magic\n", "engine"),
        ("name: ../../etc\n", "name"),
        ("- a\n- b\n", "not a list"),
        ("a: [\n", "not YAML"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec.load(_file(tmp_path, text), {})
    assert said in caught.value.render() and "pdctl.yaml" in caught.value.render()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("modell: x\n", "`modell` is no key that is known here"),
        ("router: {port: 99999}\n", "`router.port` must be at most 65535, not `99999`"),
        ("router: {port: ninety}\n", "`router.port` must be a whole number, not `ninety`"),
        ("router: 8000\n", "`router` must be a mapping of keys to values, not `8000`"),
        ("engine: magic\n", "`engine` must be `torch`, not `magic`"),
        ("transport: udp\n", "`transport` must be `tcp` or `shm`, not `udp`"),
        ("timeout_s: 0\n", "`timeout_s` must be more than 0, not `0`"),
        ("model: [a]\n", "`model` must be text, not a list"),
        ("timeout_s:\n", "`timeout_s` must be a number, not empty"),
    ],
)
def test_a_wrong_value_is_told_in_the_words_of_the_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec.load(_file(tmp_path, text), {})
    assert said in caught.value.render().splitlines()[1]
    assert "Input should" not in caught.value.render()


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        spec.load(tmp_path / "absent.yaml", {})


def test_pdctl_yaml_in_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _file(tmp_path, "name: edge\n")
    monkeypatch.chdir(tmp_path)
    assert spec.load(None, {}).name == "edge"


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "x" * 33, "-a", "a\n"])
def test_a_name_that_is_no_directory_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        spec.checked_name(name)


def test_the_example_in_the_documentation_is_a_deployment_and_shows_the_defaults(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "deployment.md").read_text(encoding="utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    loaded, default = spec.load(_file(tmp_path, example), {}), spec.DeploymentSpec()
    for key in ("name", "engine", "transport", "router", "restart", "timeout_s"):
        assert getattr(loaded, key) == getattr(default, key), key
    assert set(spec.DeploymentSpec.model_fields) == loaded.model_fields_set
