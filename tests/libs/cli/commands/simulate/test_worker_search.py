"""The fewest workers are found with few simulations."""

import pytest

from headrace.cli.commands.simulate.worker_search import Figures, WorkerSearch
from headrace.launch.worker_bounds import WorkerBounds


@pytest.mark.parametrize(("needed", "fewest", "certain"), [(1, 1, 2), (13, 13, 14), (64, 64, None), (65, None, None)])
def test_the_fewest_that_suffice(needed: int, fewest: int | None, certain: int | None) -> None:
    tried: list[int] = []

    def simulate(count: int) -> Figures:
        tried.append(count)
        share = min(1.0, 0.95 * count / needed)
        return {"workers": count, "goodput_share": share, "goodput_interval": [share - 0.005, share]}

    found = WorkerSearch(simulate, WorkerBounds(1, 64)).result()
    assert (found["workers"], found["certain_workers"]) == (fewest, certain)
    assert len(tried) == len(set(tried)) <= 16
    assert [one["workers"] for one in found["tried"]] == sorted(tried)
