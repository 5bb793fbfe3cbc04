from typing import Any

from pdctl.deploy.canary import judge
from pdctl.deploy.control import CanaryAnswer
from pdctl.deploy.reference import KnownRun

RUN = KnownRun(prompt=[1, 2, 3], tokens=[10, 11, 12], margins=[3.0, 5e-5, 2.0])
CROSSED: dict[str, Any] = {"path": "split", "kv_bytes": 138_240}


def test_equal_tokens_that_crossed_pass() -> None:
    assert judge(RUN, CanaryAnswer([10, 11, 12], CROSSED), "float32") is None


def test_right_tokens_without_transfer_fail() -> None:
    """An answer that decode computed alone proves nothing about the pair."""
    recomputed = CanaryAnswer([10, 11, 12], {"path": "recompute", "kv_bytes": 0})
    assert "no KV crossed" in str(judge(RUN, recomputed, "float32"))
    assert "no KV crossed" in str(judge(RUN, CanaryAnswer([10, 11, 12], {"path": "split", "kv_bytes": 0}), "float32"))


def test_a_wrong_token_fails_naming_its_place_and_both_answers() -> None:
    verdict = str(judge(RUN, CanaryAnswer([10, 11, 13], CROSSED), "float32"))
    assert "token 2" in verdict and "[10, 11, 12]" in verdict and "[10, 11, 13]" in verdict


def test_a_near_tie_of_the_reference_may_fall_either_way() -> None:
    assert judge(RUN, CanaryAnswer([10, 99, 7], CROSSED), "float32") is None


def test_a_short_answer_fails_even_at_a_near_tie() -> None:
    assert judge(RUN, CanaryAnswer([10], CROSSED), "float32") is not None


def test_half_precision_gets_the_wider_tie() -> None:
    close = RUN.model_copy(update={"margins": [0.2, 3.0, 3.0]})
    assert judge(close, CanaryAnswer([9, 11, 12], CROSSED), "bfloat16") is None
    assert judge(close, CanaryAnswer([9, 11, 12], CROSSED), "float32") is not None
