"""An inventory that is wrong gets one clear message, from `inventory validate` and from `provision` alike, and touches nothing."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pdctl.app import app
from pdctl.errors import UsageError
from pdctl.inventory import read_inventory
from pdctl.inventory_judgement import Judgement, judge
from pdctl.provisioning.options import Options
from pdctl.provisioning.record import file_of
from pdctl.provisioning.run import provision

RUN = CliRunner()
TWO = "a ansible_host=10.0.0.1\nb ansible_host=10.0.0.2 "


def _written(folder: Path, text: str, name: str = "hosts.ini") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _judged(path: Path) -> Judgement:
    return judge(read_inventory(path))


# One fault of a host each: its variables, and what is said. `H` stands for the host's name.
FAULTS = {
    "gpu-kind": ("gpu_kind=h10", "host `H`: unknown GPU kind `h10`; near it: h100, "),
    "kind-no-word": ("gpu_kind=[1]", "host `H`: unknown GPU kind `[1]`"),
    "simulated": ("simulated=perhaps", "host `H`: `simulated` is `perhaps`; it is true or false"),
    "port": ("ansible_port=70000", "host `H` has no usable port: `70000`; ansible_port is 1 to 65535"),
    "port-no-number": ("ansible_port=ssh", "host `H` has no usable port: `ssh`"),
    "connection": ("ansible_connection=winrm", "host `H`: pdctl does not speak the connection `winrm`"),
    "same-address": ("ansible_host=10.0.0.1", "hosts `first` and `H` have one address: 10.0.0.1 port 22"),
    "user-in-address": ("ansible_host=ops@10.0.0.2", "`ops@10.0.0.2` holds a user; the user goes into ansible_user"),
    "port-in-address": ("ansible_host=10.0.0.2:22", "`10.0.0.2:22` holds a port; the port goes into ansible_port"),
    "url-as-address": ("ansible_host=ssh://x", "`ssh://x` is neither an IP address nor a name"),
    "no-ipv4-address": ("ansible_host=10.0.0.300", "`10.0.0.300` is no IPv4 address"),
    "dash-address": ("ansible_host=-oProxyCommand=reboot", "begins with a dash, which ssh takes for an option"),
    "brackets": ("ansible_host=[2001:db8::7]", "`[2001:db8::7]` stands in brackets"),
    "link-local": ("ansible_host=fe80::7", "`fe80::7` is a link-local address without its interface"),
    "address-of-all": ("ansible_host=0.0.0.0", "`0.0.0.0` is no address of one node"),
    "missing-variable": (
        "ansible_host='{{ rack_net }}.7'",
        "`ansible_host` of host `H` needs the variable `rack_net`, which nothing gives",
    ),
    "no-template": ("ansible_user='{{ 1 +'", "`ansible_user` of host `H` cannot be filled in: "),
    "absent-key": (
        "ansible_ssh_private_key_file=/none/id",
        "the SSH key `/none/id` of host `H` cannot be read: No such",
    ),
    "policy-no-mapping": ("pdctl_policy=strict", "`pdctl_policy` of host `H`: must be a mapping of policy keys"),
    "policy-key": ("pdctl_policy='{\"sysclt\": {}}'", "`pdctl_policy` of host `H`: the policy has no key `sysclt`"),
    "policy-range": (
        'pdctl_policy=\'{"fabric": {"lossless_priority": 9}}\'',
        "`pdctl_policy` of host `H`: `fabric.lossless_priority` must be at most 7, not `9`",
    ),
    "no-cidr": (
        'pdctl_policy=\'{"fabric": {"addresses": {"r0": ["10.1.0.7"]}}}\'',
        "`fabric.addresses.r0.0` must be an address with its prefix length such as 10.0.0.7/24, not `10.1.0.7`",
    ),
    "rail-address": (
        'pdctl_policy=\'{"fabric": {"addresses": {"r0": ["fd00::1/64"], "r1": ["fd00:0::1/64"]}}}\'',
        "fd00::1 is given to `r0` of host `H` and `r1` of host `H`; `fabric.addresses` is given by host",
    ),
    "rail-in-the-way": (
        'pdctl_policy=\'{"fabric": {"addresses": {"r0": ["10.0.0.1/24"]}}}\'',
        "10.0.0.1 is given to `r0` of host `H`, and host `first` is reached at it",
    ),
    "policy-value": (
        'pdctl_policy=\'{"fabric": {"dscp": "high"}}\'',
        "`pdctl_policy` of host `H`: `fabric.dscp` must be",
    ),
}


@pytest.fixture(scope="module")
def all_wrong(tmp_path_factory: pytest.TempPathFactory) -> Judgement:
    lines = ["first ansible_host=10.0.0.1"]
    lines += [f"{name} {variables}" for name, (variables, _said) in FAULTS.items()]
    return _judged(_written(tmp_path_factory.mktemp("wrong"), "\n".join(lines) + "\n"))


@pytest.mark.parametrize(("host", "said"), [(host, said) for host, (_variables, said) in FAULTS.items()], ids=FAULTS)
def test_a_fault_of_a_host_is_one_message_that_names_host_and_value(all_wrong: Judgement, host: str, said: str) -> None:
    (fault,) = (fault for fault in all_wrong.faults if host in fault.hosts)
    assert said.replace("`H`", f"`{host}`") in f"{fault.text}; {fault.hint}"
    assert "\n" not in fault.text + fault.hint


def test_no_fault_hides_another(all_wrong: Judgement) -> None:
    assert (len(all_wrong.faults), all_wrong.warnings) == (len(FAULTS), ())


def test_a_key_that_others_may_read_or_that_is_the_public_half_is_named_once_for_all_its_hosts(tmp_path: Path) -> None:
    key, public = tmp_path / "id", tmp_path / "id.pub"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n", encoding="utf-8")
    key.chmod(0o644)
    public.write_text("ssh-ed25519 AAAA x\n", encoding="utf-8")
    lines = [f"n{n} ansible_ssh_private_key_file={key}\n" for n in range(5)]
    lines.append(f"m ansible_ssh_private_key_file={public}\n")
    open_to_all, half = _judged(_written(tmp_path, "".join(lines))).faults
    assert "of hosts `n0`, `n1`, `n2` and 2 more may be read by others (mode 0644)" in open_to_all.text
    assert open_to_all.hint == f"chmod 600 {key}"
    assert (half.text, half.hint) == (
        f"the SSH key `{public}` of host `m` is a public key",
        f"the private one is `{key}`",
    )


def test_a_key_that_is_right_is_no_fault(tmp_path: Path) -> None:
    key = tmp_path / "id"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n", encoding="utf-8")
    key.chmod(0o600)
    text = "six ansible_host=fe80::7%eth0\n"
    text += f"{TWO}gpu_kind=H100-PCIe simulated=yes ansible_ssh_private_key_file={key}\nlocalhost ansible_connection=local\n"
    assert _judged(_written(tmp_path, text)) == Judgement((), ())


@pytest.mark.parametrize(
    ("site", "said"),
    [
        pytest.param("fabric: [1\n", "cannot read a policy: ", id="no-yaml"),
        pytest.param("fabric: {mtu: {roce: big}}\n", "the policy is wrong: ", id="type"),
        pytest.param("fabrik: {}\n", "the policy has no key `fabrik`; did you mean `fabric`?", id="key"),
    ],
)
def test_a_wrong_policy_of_the_site_is_one_message(tmp_path: Path, site: str, said: str) -> None:
    (tmp_path / "policy.yml").write_text(site, encoding="utf-8")
    (fault,) = _judged(_written(tmp_path, TWO + "\n")).faults
    assert said in f"{fault.text}; {fault.hint}" and str(tmp_path / "policy.yml") in fault.text


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nothing"])
def test_a_policy_of_the_site_that_is_no_file_is_not_passed_over(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "policy.yml"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "link to nothing": lambda: path.symlink_to("none")}[kind]()
    (fault,) = _judged(_written(tmp_path, TWO + "\n")).faults
    assert fault.text.startswith(f"cannot read a policy: {path}: ")


def test_a_name_that_no_file_can_have_is_a_fault_and_a_long_one_of_chinese_is_none(tmp_path: Path) -> None:
    name = "节" * 70
    (fault,) = _judged(_written(tmp_path, f"{name} ansible_host=10.0.0.1\n{name}{name} ansible_host=10.0.0.2\n")).faults
    assert (fault.hosts, "longer than 240 bytes" in fault.text) == ((name + name,), True)
    assert len(file_of(name)) < 255 and file_of(name) != file_of(name + name)


def test_a_pipe_is_no_inventory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        read_inventory(tmp_path / "pipe")


def test_a_limit_may_begin_with_a_dash_and_home_may_be_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "none" / "home"))
    path = _written(tmp_path, "-v ansible_host=10.0.0.1\n--list ansible_host=10.0.0.2\n")
    assert [host.name for host in read_inventory(path, limit="-v")] == ["-v"]


# A whole inventory that Ansible cannot read: file name, content, what is said.
UNREADABLE = {
    "script-without-json": ("hosts.sh", "#!/bin/sh\necho nonsense\n", 0o755, "it must print one JSON object"),
    "script-that-fails": ("hosts.sh", "#!/bin/sh\necho 'no route to cmdb' >&2\nexit 3\n", 0o755, "no route to cmdb"),
    "script-that-may-not-run": ("hosts.py", "#!/bin/sh\necho '{}'\n", 0o644, "must be executable: `chmod +x`"),
    "vault": ("hosts.yml", "$ANSIBLE_VAULT;1.1;AES256\n6161\n", 0o600, "ANSIBLE_VAULT_PASSWORD_FILE"),
}


@pytest.mark.parametrize(("name", "text", "mode", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_inventory_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, mode: int, said: str
) -> None:
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)
    path = _written(tmp_path, text, name)
    path.chmod(mode)
    with pytest.raises(UsageError) as caught:
        read_inventory(path)
    assert said in caught.value.render() and name in caught.value.message


def test_an_address_that_a_group_gives_to_all_its_hosts_is_one_fault(tmp_path: Path) -> None:
    policy = {"fabric": {"addresses": {"r0": ["10.1.0.1/24"], "r1": None}}}
    lines = [f"n{number} ansible_host=10.0.0.{number + 1}\n" for number in range(9)]
    path = _written(tmp_path, f"[prefill]\n{''.join(lines)}[prefill:vars]\npdctl_policy={policy}\n")
    (fault,) = _judged(path).faults
    assert fault.text.startswith("10.1.0.1 is given to `r0` of host `n0` and") and fault.text.endswith(" and 6 more")


def test_what_is_odd_is_a_warning_and_no_fault(tmp_path: Path) -> None:
    lines = (
        "[prefill]",
        "a ansible_hots=10.0.0.1",
        "b ansible_host=10.0.0.2 gpu_knid=h100 rack=7 ansible_become_exe=/bin/sudo",
        'c pdctl_policy=\'{"fabric": {"lossless_prio": 4, "mtu": {"x": 1}}}\'',
        "[decode]",
        "a",
    )
    faults, warnings = _judged(_written(tmp_path, "\n".join(lines) + "\n"))
    assert faults == ()
    assert set(warnings) == {
        "host `a`: `ansible_hots` is no variable that pdctl or Ansible knows; `ansible_host` is",
        "host `a`: in both pools, prefill and decode",
        "host `b`: `gpu_knid` is no variable that pdctl or Ansible knows; `gpu_kind` is",
        "host `c`: in `pdctl_policy` nothing reads `fabric.lossless_prio`; did you mean `fabric.lossless_priority`?",
        "host `c`: in `pdctl_policy` nothing reads `fabric.mtu.x`; the policy has no such key",
    }


def test_provision_refuses_all_of_it_at_once_and_begins_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = _written(tmp_path, "a gpu_kind=h10 ansible_port=0\nb gpu_kind=h11\n")
    from pdctl.content import content_root

    options = Options(path, content_root() / "playbooks" / "provision.yml", check=True)
    with pytest.raises(UsageError) as caught:
        provision(options, lambda _fold, _step: None, lambda _text: None)
    assert "is wrong in 3 ways" in caught.value.message
    assert [line.count("host `") for line in str(caught.value.detail).splitlines()] == [1, 1, 1]
    assert not (tmp_path / "state").exists()


def test_a_variable_of_the_command_line_is_not_missed(tmp_path: Path) -> None:
    path = _written(tmp_path, "a ansible_host='{{ rack }}.1'\nb ansible_host='{{ rack }}.2'\n")
    assert [host.address for host in read_inventory(path, variables={"rack": "10.0.7"})] == ["10.0.7.1", "10.0.7.2"]
    assert len(read_inventory(path).faults) == 2


def test_validate_prints_each_fault_and_exits_with_usage(tmp_path: Path) -> None:
    path = _written(tmp_path, "[decode]\na gpu_kind=h10\nb ansible_host=10.0.0.300 gpu_kind=a100\nc\n")
    ran = RUN.invoke(app, ["inventory", "validate", str(path)])
    assert ran.exit_code == 2
    lines = ran.stdout.splitlines()
    assert len([line for line in lines if line.startswith("wrong: ")]) == 2
    assert "warning: host `c`: no gpu_kind" in ran.stdout
    assert lines[-1].startswith("2 fault(s) in 3 host(s)")


def test_validate_of_a_right_inventory_says_so(tmp_path: Path) -> None:
    path = _written(tmp_path, "a gpu_kind=h100\n")
    ran = RUN.invoke(app, ["inventory", "validate", str(path), "-o", "json"])
    assert ran.exit_code == 0
    assert '"faults": []' in ran.stdout


def test_there_are_twenty_ways() -> None:
    assert len(FAULTS) + len(UNREADABLE) >= 20


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_inventory_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path, "a\n")
    path.chmod(0)
    with pytest.raises(UsageError, match=r"hosts\.ini"):
        read_inventory(path)
