"""`pdctl policy export --switch`: the switches' side of the policy, each value from the policy alone, in the switch's own words."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from pdctl.app import app
from pdctl.content import content_root

RUN = CliRunner()
DATA = Path(__file__).parents[2] / "data" / "switches"
PORTS = ("--port", "Ethernet0,Ethernet4")
# Leaves of sonic-buildimage's YANG models: what each table may hold.
LEAVES = {
    "DSCP_TO_TC_MAP": {str(dscp) for dscp in range(64)},
    "TC_TO_QUEUE_MAP": {str(tc) for tc in range(8)},
    "TC_TO_PRIORITY_GROUP_MAP": {str(tc) for tc in range(8)},
    "MAP_PFC_PRIORITY_TO_QUEUE": {str(tc) for tc in range(8)},
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {str(tc) for tc in range(8)},
    "WRED_PROFILE": {
        *("ecn", "wred_green_enable", "wred_yellow_enable", "wred_red_enable"),
        *(f"{colour}_{leaf}_threshold" for colour in ("green", "yellow", "red") for leaf in ("min", "max")),
        *(f"{colour}_drop_probability" for colour in ("green", "yellow", "red")),
    },
    "SCHEDULER": {"type", "weight"},
    "CABLE_LENGTH": {"Ethernet0", "Ethernet4"},
    "PORT_QOS_MAP": {
        *("dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map", "pfc_to_queue_map", "pfc_to_pg_map"),
        *("pfc_enable", "pfcwd_sw_enable"),
    },
    "QUEUE": {"scheduler", "wred_profile"},
    "PORT": {"mtu"},
    "PFC_WD": {"action", "detection_time", "restoration_time", "POLL_INTERVAL"},
}


def _export(language: str, *more: str, policy: Path = DATA / "policy.yml") -> str:
    ran = RUN.invoke(app, ["policy", "export", "--switch", language, "--policy", str(policy), *more])
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


def _refused(*arguments: str) -> str:
    ran = RUN.invoke(app, ["policy", "export", "--switch", "text", *arguments])
    assert ran.exit_code != 0 and ran.exception is not None
    render = getattr(ran.exception, "render", None)
    return str(render() if render else ran.exception)


def _site(folder: Path, text: str) -> Path:
    path = folder / "site.yml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("golden", ["sonic.json", "nvue.txt", "text.txt"])
def test_the_words_of_a_switch(golden: str) -> None:
    assert _export(golden.split(".")[0], *PORTS) == (DATA / golden).read_text(encoding="utf-8")


def test_sonic_gets_tables_and_leaves_of_its_models_and_strings_only() -> None:
    document = json.loads(_export("sonic", *PORTS))
    assert set(document) == set(LEAVES)
    for table, entries in document.items():
        for name, entry in entries.items():
            assert set(entry) <= LEAVES[table], (table, name)
            assert all(isinstance(value, str) for value in entry.values()), (table, name)


def test_sonic_is_not_given_a_range_of_ports_as_the_name_of_one() -> None:
    ran = RUN.invoke(app, ["policy", "export", "--switch", "sonic", "--port", "Ethernet0,Ethernet4-12"])
    assert ran.exit_code != 0 and "`Ethernet4-12` is no port of SONiC" in str(ran.exception)
    assert "swp1-12" in _export("nvue", "--port", "swp1-12")


def test_every_reference_between_sonic_s_tables_leads_somewhere() -> None:
    document = json.loads(_export("sonic", *PORTS))
    tables = {"dscp_to_tc_map": "DSCP_TO_TC_MAP", "tc_to_queue_map": "TC_TO_QUEUE_MAP", "scheduler": "SCHEDULER"}
    tables |= {"tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP", "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE"}
    tables |= {"wred_profile": "WRED_PROFILE"}
    for table in ("PORT_QOS_MAP", "QUEUE"):
        for entry in document[table].values():
            for leaf, value in entry.items():
                assert leaf not in tables or value in document[tables[leaf]], (leaf, value)


def test_nothing_but_roce_is_lossless() -> None:
    document = json.loads(_export("sonic", *PORTS))
    assert [dscp for dscp, tc in document["DSCP_TO_TC_MAP"]["PDCTL"].items() if tc == "5"] == ["40"]
    lines = _export("nvue").splitlines()
    (other,) = (line for line in lines if line.endswith("switch-priority 0") and " dscp " in line)
    assert "41,42,43,44,45,47" in other


def test_nvue_keeps_what_roce_sets_by_itself(tmp_path: Path) -> None:
    shipped = yaml.safe_load((content_root() / "roles/policy/files/policy.yml").read_text(encoding="utf-8"))["fabric"]
    assert (shipped["lossless_priority"], shipped["cnp"]["priority"]) == (3, 6)
    assert "egress-queue-mapping" not in _export("nvue", policy=_site(tmp_path, "fabric: {}\n"))


def test_what_the_policy_leaves_open_is_said_and_not_made_up(tmp_path: Path) -> None:
    text = "switch: {mtu: null, ecn: {max_bytes: null}, roce_bandwidth_percent: null, pfc_watchdog: {detection_ms: null}}\n"
    site = _site(tmp_path, text)
    ran = RUN.invoke(app, ["policy", "export", "--switch", "sonic", "--policy", str(site), *PORTS])
    document = json.loads(ran.stdout)
    assert {"PORT", "WRED_PROFILE", "PFC_WD"}.isdisjoint(document)
    assert all("wred_profile" not in queue for queue in document["QUEUE"].values())
    for key in ("switch.mtu", "switch.ecn", "switch.roce_bandwidth_percent", "switch.pfc_watchdog"):
        assert f"note: the policy leaves {key} open" in ran.stderr
    words = _export("nvue", policy=site)
    assert "# the policy leaves switch.ecn open: nothing is set for it" in words and "congestion-control" not in words
    assert _export("text", policy=site).count("left open") == 8


def test_without_ports_what_names_them_is_left_out_and_said() -> None:
    ran = RUN.invoke(app, ["policy", "export", "--switch", "sonic", "--policy", str(DATA / "policy.yml")])
    assert {"PORT", "PORT_QOS_MAP", "QUEUE", "PFC_WD"}.isdisjoint(json.loads(ran.stdout))
    assert "no --port was given" in ran.stderr
    assert "# nv set interface PORTS link mtu 9100" in _export("nvue")


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ("fabric: {trust: pcp}\n", "fabric.trust is `pcp`"),
        ("fabric: {global_pause: true}\n", "fabric.global_pause is on"),
        ("fabric: {dscp: 64}\n", "`fabric.dscp` must be at most 63, not `64`"),
        ("fabric: {lossless_priority: 8}\n", "`fabric.lossless_priority` must be at most 7, not `8`"),
        ("fabric: {dscp: 46, cnp: {dscp: 46}}\n", "are both 46"),
        ("fabric: {lossless_priority: 6, cnp: {priority: 6}}\n", "are both 6"),
        ("fabric: {mtu: {netdev: 9000}}\nswitch: {mtu: 9014}\n", "makes frames of 9022"),
        ("switch: {ecn: {min_bytes: 2, max_bytes: 1}}\n", "the first is the smaller one"),
        ("switch: {pfc_watchdog: {detection_ms: 20}}\n", "switch.pfc_watchdog.detection_ms is 20; switches take 100"),
        ("switch: {pfc_watchdog: {action: shout}}\n", "switch.pfc_watchdog.action"),
    ],
)
def test_a_policy_that_no_switch_can_hold_is_refused_by_its_key(tmp_path: Path, site: str, said: str) -> None:
    assert said in _refused("--policy", str(_site(tmp_path, site)))


def test_nodes_of_different_fabrics_are_refused_and_of_different_cables_the_longest_counts(tmp_path: Path) -> None:
    hosts = {
        "p1": {"fabric": {"cable_length_m": 3}},
        "p2": {"fabric": {"cable_length_m": 40}},
        "q": {"fabric": {"dscp": 30}},
    }
    document = {"all": {"hosts": {name: {"pdctl_policy": value} for name, value in hosts.items()}}}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert "p1 and q differ in dscp, by_dscp" in _refused("-i", str(inventory))
    ran = RUN.invoke(app, ["policy", "export", "--switch", "nvue", "-i", str(inventory), "--limit", "p1,p2"])
    assert "cable-length 40" in ran.stdout and "the longest, 40 m, counts" in ran.stderr


@pytest.mark.parametrize("port", ["; reload", "-x", "a\nb", "Ethernet0,$(x)"])
def test_a_port_that_would_be_more_than_a_name_in_a_shell_is_refused(port: str) -> None:
    refused = RUN.invoke(app, ["policy", "export", "--switch", "nvue", f"--port={port}"])
    assert type(refused.exception).__name__ == "UsageError" and "is no name of a port" in str(refused.exception)


def test_a_port_that_is_given_twice_is_told_once() -> None:
    assert _export("nvue", "--port", "swp1,swp1") == _export("nvue", "--port", "swp1")
