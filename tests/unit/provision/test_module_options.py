"""Role mlx5: options that the module has, ghosts taken out, an initramfs rebuilt, device parameters read back."""

import json
import os
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.provision.node_module import Programs, node_module

options = node_module("mlx5", "pdctl_module_options")
initramfs = node_module("mlx5", "pdctl_initramfs")
devlink = node_module("mlx5", "pdctl_devlink")

# modinfo -p of Debian's kernel 6.1.
MLX5_CORE = """\
debug_mask:debug mask: 1 = dump cmd data, 2 = dump cmd exec time, 3 = both. Default=0 (uint)
prof_sel:profile selector. Valid range 0 - 2 (uint)
"""
HAS = {"mlx5_core": ["debug_mask", "prof_sel"]}


def test_parameters_are_what_modinfo_lists_and_a_missing_module_has_none() -> None:
    run = Programs({"modinfo -p mlx5_core": MLX5_CORE}).run_command
    assert options.parameters(run, "mlx5_core") == ["debug_mask", "prof_sel"]
    assert options.parameters(run, "mlx5_ib") is None


def test_only_options_that_the_module_has_are_recorded() -> None:
    wanted = {"mlx5_core": {"prof_sel": 2, "log_sz_sq": 18, "debug_mask": None}, "mlx4_core": {"log_num_mgm": 1}}
    assert options.record_text(wanted, HAS) == f"{options.HEAD}options mlx5_core prof_sel=2\n"
    assert options.record_text({"mlx5_core": {"log_sz_sq": 18}}, HAS) == ""


def test_a_ghost_of_the_policy_is_named_with_what_the_module_has() -> None:
    (problem,) = options.absent({"mlx5_core": {"prof_sel": 2, "log_sz_xrq": 18}}, HAS)
    assert (problem["key"], problem["outcome"]) == ("mlx5_core log_sz_xrq", "absent")
    assert "it has: debug_mask, prof_sel" in problem["message"]


@pytest.mark.parametrize(
    ("line", "left", "ghosts"),
    [
        ("options mlx5_core log_sz_xrq=18 log_sz_sq=18\n", "", ["log_sz_xrq", "log_sz_sq"]),
        ("options mlx5-core log_sz_xrq=18 prof_sel=2\n", "options mlx5_core prof_sel=2\n", ["log_sz_xrq"]),
        ("options mlx5_core prof_sel=2 dyndbg=+p\n", "options mlx5_core prof_sel=2 dyndbg=+p\n", []),
        ("# options mlx5_core log_sz_xrq=18\n", "# options mlx5_core log_sz_xrq=18\n", []),
        ("options nvidia anything=1\n", "options nvidia anything=1\n", []),
    ],
)
def test_a_ghost_is_taken_out_and_the_rest_of_its_line_stays(line: str, left: str, ghosts: list[str]) -> None:
    assert options.without_ghosts(line, HAS) == (left, ghosts)


def test_a_later_file_with_another_value_is_named(tmp_path: Path) -> None:
    record, later = tmp_path / "90-pdctl.conf", tmp_path / "99-site.conf"
    texts = {str(record): "options mlx5_core prof_sel=2\n", str(later): "#\noptions mlx5_core prof_sel=0\n"}
    wanted = {"mlx5_core": {"prof_sel": 2}}
    (problem,) = options.overridden(wanted, HAS, [record, later], texts)
    assert problem["live"] == "0" and f"{later}:2" in problem["message"]
    assert list(options.overridden(wanted, HAS, [later, record], texts)) == []


def test_an_option_of_a_loaded_module_waits_for_its_next_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "SYS_MODULE", tmp_path)
    wanted = {"mlx5_core": {"prof_sel": 2, "debug_mask": 0}}
    assert list(options.pending(wanted, HAS)) == []
    (tmp_path / "mlx5_core/parameters").mkdir(parents=True)
    (tmp_path / "mlx5_core/parameters/prof_sel").write_text("3\n")
    (tmp_path / "mlx5_core/parameters/debug_mask").write_text("0\n")
    assert [(each["option"], each["live"]) for each in options.pending(wanted, HAS)] == [("prof_sel", "3")]


def test_a_bool_of_the_kernel_is_the_same_value() -> None:
    assert options.same_value("Y", 1) and options.same_value("N", False) and not options.same_value("Y", 0)


def test_a_file_keeps_its_mode_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "site.conf"
    path.write_bytes(b"# \xff\noptions mlx5_core log_sz_sq=1\n")
    path.chmod(0o600)
    text, found = options.cleaned(path, options.text_of(path), HAS)
    options.write(path, text, False)
    assert path.read_bytes() == b"# \xff\n" and path.stat().st_mode & 0o777 == 0o600
    assert found == [{"file": str(path), "line": 2, "module": "mlx5_core", "option": "log_sz_sq"}]


@pytest.fixture
def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(initramfs, "BOOT", tmp_path)
    return tmp_path


def test_every_image_is_found_and_rescue_images_are_left(boot: Path) -> None:
    names = [
        "initrd.img-6.1.0-57-amd64",
        "initramfs-5.14.0-427.el9.x86_64.img",
        "initramfs-0-rescue-77.img",
        "vmlinuz-6",
    ]
    for name in [*names, "initramfs-5.14.0-427.el9.x86_64kdump.img"]:
        (boot / name).touch()
    assert [release for _path, release in initramfs.images()] == ["5.14.0-427.el9.x86_64", "6.1.0-57-amd64"]


def test_an_image_older_than_the_options_is_outdated(boot: Path) -> None:
    image, conf = boot / "initrd.img-6", boot / "90.conf"
    image.touch()
    conf.touch()
    os.utime(image, (1000, 1000))
    os.utime(conf, (900, 900))
    assert not initramfs.outdated(image, [str(conf), str(boot / "91.conf")], False)
    assert initramfs.outdated(image, [], True)
    os.utime(conf, (1100, 1100))
    assert initramfs.outdated(image, [str(conf)], False)


@pytest.mark.parametrize(
    ("printed", "held"),
    [
        ("usr/lib/modules/6/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst\n", True),
        ("-rw-r--r-- 1 root root 9 Jan 1 1970 usr/lib/modules/6/kernel/mlx5_ib.ko.xz\n", True),
        ("etc/modprobe.d/mlx5_core.conf\nusr/lib/modules/6/mlx5_core_test.ko\n", False),
    ],
)
def test_an_image_holds_a_module_by_its_file(boot: Path, printed: str, held: bool) -> None:
    module = Programs({f"lsinitramfs {boot}/initrd.img-6": printed})
    assert initramfs.holds(module, boot / "initrd.img-6", ["mlx5_core", "mlx5_ib"]) is held


def test_a_rebuild_that_leaves_the_old_image_is_refused(boot: Path) -> None:
    image = boot / "initrd.img-6"
    image.touch()
    os.utime(image, (1000, 1000))
    quiet = Programs({"update-initramfs -u -k 6": ""})
    assert "as old as before" in initramfs.rebuild(quiet, image, "6")
    rebuilt = Programs({"update-initramfs -u -k 6": lambda: image.touch() or ""})
    assert initramfs.rebuild(rebuilt, image, "6") is None
    full = Programs({"update-initramfs -u -k 6": (1, "", "No space left on device")})
    assert "No space left" in initramfs.rebuild(full, image, "6")


def _shown(value: object, mode: str) -> str:
    values = [{"cmode": mode, "value": value}]
    return json.dumps({"param": {"pci/0000:81:00.0": [{"name": "enable_roce", "type": "generic", "values": values}]}})


@pytest.fixture
def card() -> ModuleType:
    return devlink


def test_a_device_parameter_is_set_and_read_back(card: ModuleType) -> None:
    show = "devlink -j dev param show pci/0000:81:00.0 name enable_roce"
    answers = [_shown(False, "driverinit"), _shown(True, "driverinit")]
    node = Programs({show: lambda: answers.pop(0), f"{SET} driverinit": ""})
    record = card.bring(node, "0000:81:00.0", "enable_roce", "true")
    assert (record["outcome"], record["before"], record["live"]) == ("changed", "false", "true")


SET = "devlink dev param set pci/0000:81:00.0 name enable_roce value true cmode"


@pytest.mark.parametrize(
    ("answers", "outcome", "words"),
    [
        ({"show": _shown(False, "runtime"), "set": ""}, "clamped", "another"),
        ({"show": _shown(False, "runtime"), "set": (1, "", "kernel answers: Operation not permitted")}, "refused", "permitted"),
        ({"show": (1, "", "kernel answers: Invalid argument")}, "absent", "Invalid argument"),
        ({"show": _shown(False, "permanent")}, "absent", "no such parameter"),
        ({"show": "not json"}, "absent", "no JSON"),
    ],
)  # fmt: skip
def test_a_device_that_says_no_is_reported(card: ModuleType, answers: dict[str, str], outcome: str, words: str) -> None:
    lines = {"show": "devlink -j dev param show pci/0000:81:00.0 name enable_roce", "set": f"{SET} runtime"}
    node = Programs({lines[name]: answer for name, answer in answers.items()})
    record = card.bring(node, "0000:81:00.0", "enable_roce", "true")
    assert record["outcome"] == outcome and words in record["message"]


def test_a_check_sets_no_device_parameter(card: ModuleType) -> None:
    node = Programs({"devlink -j dev param show pci/0000:81:00.0 name enable_roce": _shown(False, "runtime")}, True)
    assert card.bring(node, "0000:81:00.0", "enable_roce", "true")["outcome"] == "changed"
    assert len(node.ran) == 1
