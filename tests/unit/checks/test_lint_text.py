"""Where the linter looks: commands and settings, not comments; advice, not warnings against it; places to the column."""

import time

import pytest
from tests.unit.checks.reports import POLICY

from pdchecks.lint.run import lint


def _found(name: str, content: str) -> list[tuple[str, int, int]]:
    return [(advice.rule.id, advice.hit.line, advice.hit.column) for advice in lint(name, content, POLICY)]


def test_a_hit_names_line_and_column() -> None:
    assert _found("x.sh", "set -e\n  roceadm -d mlx5_0\n") == [("PD-LINT-006", 2, 3)]


def test_a_hit_in_a_continued_line_names_its_own_line() -> None:
    assert _found("x.sh", "mlnx_qos -i eth2 \\\n    --trust pcp\n") == [("PD-LINT-026", 2, 13)]


@pytest.mark.parametrize("comment", ["# roceadm -d", "x=1  # roceadm -d", "; roceadm", "// roceadm"])
def test_a_comment_is_no_advice(comment: str) -> None:
    assert _found("x.sh", f"{comment}\n") == []


def test_a_hash_inside_quotes_begins_no_comment() -> None:
    assert _found("x.sh", "echo '#' && roceadm\n") == [("PD-LINT-006", 1, 13)]


def test_a_sentence_that_warns_is_no_advice_and_one_that_does_not_is() -> None:
    assert _found("r.md", "Never run `iblinkinfo` here.\n") == []
    assert _found("r.md", "There is no such tool. Run `iblinkinfo` here.\n") == [("PD-LINT-007", 1, 29)]


def test_code_in_a_fence_is_judged_as_code() -> None:
    assert _found("r.md", "# Head\n\n```sh\n# roceadm\nroceadm  # not\n```\n") == [("PD-LINT-006", 5, 1)]


@pytest.mark.parametrize(
    "content",
    [
        "net.ipv4.neigh.eth2.base_reachable_time_ms = 1",
        "sysctl -w net.ipv4.neigh.eth2.base_reachable_time_ms=1",
        "echo 1 > /proc/sys/net/ipv4/neigh/eth2/base_reachable_time_ms",
        "echo 1 | sudo tee /proc/sys/net/ipv4/neigh/eth2/base_reachable_time_ms",
        '"net.ipv4.neigh.eth2.base_reachable_time_ms": "1"',
        "- ansible.posix.sysctl:\n    name: net.ipv4.neigh.eth2.base_reachable_time_ms\n    value: '1'",
    ],
)
def test_a_kernel_setting_is_seen_in_every_syntax(content: str) -> None:
    assert "PD-LINT-004" in {rule for rule, _, _ in _found("x", content)}


@pytest.mark.parametrize(
    "content",
    [
        "export NCCL_IB_GID_INDEX=3",
        "docker run -e NCCL_IB_GID_INDEX=3 image",
        "ENV NCCL_IB_GID_INDEX 3",
        'Environment="NCCL_IB_GID_INDEX=3"',
        "environment:\n  NCCL_IB_GID_INDEX: 3",
        "- name: NCCL_IB_GID_INDEX\n  value: '3'",
        "{'NCCL_IB_GID_INDEX': '3'}",
    ],
)
def test_a_variable_is_seen_in_every_syntax(content: str) -> None:
    assert {rule for rule, _, _ in _found("x", content)} == {"PD-LINT-028"}


def test_the_right_setting_comes_from_the_policy() -> None:
    (advice,) = lint("x.sh", "ip link set eth2 mtu 4096\n", POLICY)
    assert str(POLICY.values.fabric.mtu.netdev) in advice.right


@pytest.mark.parametrize(
    "content", ["", "\n", "\\\n", "\\", "```", "a" * 300_000, "roceadm " * 20_000, "\\\n" * 50_000]
)
def test_odd_texts_end_soon(content: str) -> None:
    began = time.process_time()
    _found("x.md", content)
    assert time.process_time() - began < 20
