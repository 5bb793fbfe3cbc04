"""Metrics in base units, with what the transports count by themselves."""

from __future__ import annotations

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from pdserve.metrics import DecodeMetrics, PrefillMetrics
from pdserve.transport.meter import METER


def samples(metrics: DecodeMetrics | PrefillMetrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {sample.name + sample.labels.get("le", ""): sample.value for family in families for sample in family.samples}


def test_a_transfer_is_counted_in_bytes_frames_seconds_and_gigabytes_a_second() -> None:
    metrics = DecodeMetrics()
    metrics.transfer(3_000_000_000, 60, 2.0, None, resent=2)
    metrics.transfer(500, 1, 0.1, "checksum of request 00 layer 1 ...", resent=1)
    seen = samples(metrics)
    assert seen["pdserve_kv_bytes_total"] == 3e9 and seen["pdserve_kv_frames_total"] == 60
    assert seen["pdserve_kv_frames_resent_total"] == 3 and seen["pdserve_kv_transfers_failed_total"] == 1
    assert seen["pdserve_kv_transfer_seconds_sum"] == 2.0
    assert seen["pdserve_kv_transfer_gb_per_second_sum"] == 1.5
    assert seen["pdserve_kv_transfer_gb_per_second_bucket1.0"] == 0
    assert seen["pdserve_kv_transfer_gb_per_second_bucket2.0"] == 1


@pytest.mark.parametrize("kind", [DecodeMetrics, PrefillMetrics])
def test_what_transports_count_is_on_both_sides(kind: type[DecodeMetrics] | type[PrefillMetrics]) -> None:
    metrics = kind()
    before = samples(metrics)
    METER.checksum_failed()
    METER.refused_a_stranger()
    METER.waited_for_credit(0.25)
    after = samples(metrics)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown == {
        "pdserve_kv_checksum_failures_total": 1,
        "pdserve_kv_unauthenticated_total": 1,
        "pdserve_kv_credit_waits_total": 1,
        "pdserve_kv_credit_wait_seconds_total": 0.25,
    }
