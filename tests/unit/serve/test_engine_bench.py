"""What the engine's benchmark prints is what it measured: of each round one ratio, and of the ratios the median."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from tests.bench.engine.__main__ import Figures, report

OURS = Figures(ttft_s=2.0, prefill_s=1.0, decode_1=20.0, decode_n=80.0, step_n_s=0.09)


def test_a_ratio_above_one_means_ours_is_faster_for_times_and_for_rates() -> None:
    theirs = Figures(ttft_s=4.0, prefill_s=4.0, decode_1=10.0, decode_n=160.0)
    assert OURS.against(theirs) == [2.0, 4.0, 2.0, 0.5]


def test_a_round_that_other_work_slowed_down_does_not_decide() -> None:
    even = Figures(2.0, 1.0, 20.0, 80.0)
    disturbed = Figures(200.0, 100.0, 0.2, 0.8)
    lines = report([(OURS, even), (OURS, even), (OURS, disturbed)]).splitlines()
    assert [line.rsplit("|", 2)[1].strip() for line in lines[1:5]] == ["1.00"] * 4
    assert lines[-1] == "decode computes 90% of the time while 8 streams run"
