"""Role time: which service keeps a node's clock, and whether it does."""

import pytest
from tests.unit.provision.node_module import Programs, node_module

clock = node_module("time", "pdctl_time")

TRACKING = """\
Reference ID    : {reference}
Stratum         : 3
Ref time (UTC)  : Mon Nov 30 10:00:00 2026
System time     : 0.000012 seconds fast of NTP time
Leap status     : {leap}
"""


def _units(**states: str) -> Programs:
    """Keyword: a unit without its ending, `-` as `_`; value: ActiveState. Others are not there."""
    show = "systemctl show --property=LoadState,ActiveState,Id -- "
    there = {name.replace("_", "-") + ".service": state for name, state in states.items()}
    answers = {
        show
        + unit: f"Id={unit}\nLoadState={'loaded' if unit in there else 'not-found'}\nActiveState={there.get(unit, 'inactive')}\n"
        for unit in clock.UNITS
    }
    return Programs(answers)


def test_the_service_that_runs_counts_before_one_that_is_only_installed() -> None:
    assert clock.look_for_unit(_units(chrony="inactive", systemd_timesyncd="active").run_command) == (
        "systemd-timesyncd.service", "timesyncd", True,
    )  # fmt: skip
    assert clock.look_for_unit(_units(chronyd="inactive").run_command) == ("chronyd.service", "chrony", False)
    assert clock.look_for_unit(_units().run_command) == ("", "", False)


def test_an_alias_is_not_a_second_service() -> None:
    answer = "Id=chrony.service\nLoadState=loaded\nActiveState=active\n"
    show = "systemctl show --property=LoadState,ActiveState,Id -- "
    run = Programs({f"{show}chrony.service": answer, f"{show}chronyd.service": answer}).run_command
    assert clock.look_for_unit(run)[0] == "chrony.service"


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("pool 2.debian.pool.ntp.org iburst\nconfdir /etc/chrony/conf.d\n", "/etc/chrony/conf.d"),
        ("include /etc/chrony.d/*.conf\n", "/etc/chrony.d"),
        ("# confdir /etc/chrony/conf.d\nsourcedir /run/chrony-dhcp\n", ""),
    ],
)
def test_the_folder_of_drop_ins_is_read_from_chrony_s_own_file(text: str, folder: str) -> None:
    assert clock.folder_of(text) == folder


@pytest.mark.parametrize(
    ("leap", "reference", "good"),
    [
        ("Normal", "C0A80101 (192.168.1.1)", True),
        ("Not synchronised", "00000000 ()", False),
        # A server of a closed site that serves its own clock has no source.
        ("Normal", "7F7F0101 ()", False),
    ],
)
def test_chrony_has_the_clock_only_by_a_reference_other_than_itself(leap: str, reference: str, good: bool) -> None:
    run = Programs({"chronyc -n tracking": TRACKING.format(leap=leap, reference=reference)}).run_command
    found, said = clock.synchronised(run, "chrony")
    assert found is good and leap in said


def test_a_daemon_that_does_not_answer_is_not_synchronised() -> None:
    run = Programs({"chronyc -n tracking": (1, "506 Cannot talk to daemon\n", "")}).run_command
    assert clock.synchronised(run, "chrony") == (False, "chronyc: 506 Cannot talk to daemon")


def test_timesyncd_is_asked_through_the_kernel_s_flag() -> None:
    show = "timedatectl show --property=NTPSynchronized"
    assert clock.synchronised(Programs({show: "NTPSynchronized=yes\n"}).run_command, "timesyncd")[0]
    assert not clock.synchronised(Programs({show: "NTPSynchronized=no\n"}).run_command, "timesyncd")[0]
