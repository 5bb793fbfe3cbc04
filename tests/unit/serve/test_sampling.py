"""A token depends on the seed, its position and the logits, and on nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from pdserve.sampling import Sampling, sample, uniform

LOGITS = torch.linspace(0.0, 3.0, 50)


def draws(sampling: Sampling, count: int = 400) -> list[int]:
    rows = LOGITS.repeat(count, 1)
    samplings = [sampling.model_copy(update={"seed": seed}) for seed in range(count)]
    return sample(rows, samplings, [7] * count)


def test_temperature_zero_takes_the_largest() -> None:
    assert set(draws(Sampling(temperature=0.0), 3)) == {49}


def test_top_k_keeps_the_k_largest() -> None:
    assert set(draws(Sampling(top_k=3))) == {47, 48, 49}


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    probabilities = LOGITS.double().softmax(0).flip(0)
    kept = int((probabilities.cumsum(0) < 0.3).sum()) + 1
    assert set(draws(Sampling(top_p=0.3), 2000)) == set(range(50 - kept, 50))


def test_frequencies_follow_the_softmax() -> None:
    drawn = torch.bincount(torch.tensor(draws(Sampling(), 20_000)), minlength=50) / 20_000
    assert float((drawn - LOGITS.softmax(0)).abs().max()) < 0.01


def test_a_low_temperature_sharpens() -> None:
    assert draws(Sampling(temperature=0.05)).count(49) > draws(Sampling()).count(49) + 100


def test_the_same_seed_and_position_draw_the_same_in_any_row() -> None:
    sampling = Sampling(seed=5)
    (alone,) = sample(LOGITS[None], [sampling], [11])
    crowd = sample(LOGITS.repeat(3, 1), [Sampling(seed=1), sampling, Sampling(seed=2)], [11, 11, 11])
    assert crowd[1] == alone


def test_the_uniform_number_is_fixed_for_ever() -> None:
    """A change here would break the resumption of a stream across two versions."""
    assert uniform(0, 0) == 0.6911861678979767
    assert uniform(-1, 5) == uniform((1 << 64) - 1, 5)
    values = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert 0.49 < sum(values) / len(values) < 0.51
    assert all(0.0 <= value < 1.0 for value in values)
    assert len(set(values)) == len(values)
