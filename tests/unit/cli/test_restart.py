from pdctl.deploy.restart import RestartPolicy

POLICY = RestartPolicy(first_delay_s=0.5, max_delay_s=4.0, limit=4, window_s=100.0)


def test_the_first_exit_costs_no_delay_and_each_further_one_in_the_window_doubles_it_up_to_the_maximum() -> None:
    policy = POLICY.model_copy(update={"limit": 5, "max_delay_s": 3.0})
    exits = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [policy.delay(exits[: n + 1], exits[n]) for n in range(5)] == [0.0, 0.5, 1.0, 2.0, 3.0]


def test_one_exit_more_than_the_limit_gives_up() -> None:
    assert POLICY.delay([0.0, 1.0, 2.0, 3.0, 4.0], 4.0) is None


def test_exits_outside_the_window_are_forgiven() -> None:
    assert POLICY.delay([0.0, 1.0, 2.0, 3.0, 200.0], 200.0) == 0.0
