"""Contenders take turns; those that cannot take part are told apart."""

from collections.abc import Callable, Sequence

import pytest
import torch
from tests.benchmarks.gpu.clock import HostClock
from tests.benchmarks.gpu.contest import Computation, Contender, Contest, Figure, compete
from tests.benchmarks.gpu.crossover import Crossover, find_crossovers
from torch import Tensor

from headrace.planning.device_profile import PROFILES, read_profile
from headrace.planning.roofline import Launch

LAUNCH = Launch(2.55e6, 0.0)


class SetClock:
    """Clock that shows what it is told to."""

    def __init__(self, *seconds: list[float]) -> None:
        self.seconds = list(seconds)

    def measure(self, runs: Sequence[Callable[[], object]], round_count: int) -> list[list[float]]:
        assert len(runs) == len(self.seconds)
        return self.seconds


def refuse() -> Computation:
    raise NotImplementedError("no kernel for this card\nand a trace")


def refuse_later() -> Computation:
    def run() -> Tensor:
        raise RuntimeError

    return run


def contest(*contenders: tuple[str, Callable[[], Computation]], row_count: int = 1) -> Contest:
    made = tuple(Contender(name, prepare, LAUNCH) for name, prepare in contenders)
    return Contest("Products", "[2, 2]", row_count, "bfloat16", lambda: torch.tensor([4.0, -8.0]), made)


def test_a_figure_has_the_median_the_error_and_the_prediction() -> None:
    profile = read_profile(PROFILES / "l4.toml")
    right = contest(("ours", lambda: lambda: torch.tensor([4.0, -7.0])))
    (found,) = compete(right, SetClock([5e-6, 1e-6, 3e-6]), 3, profile)
    assert (found.seconds, found.fastest, found.slowest) == (3e-6, 1e-6, 5e-6)
    assert found.error == pytest.approx(1 / 8)
    # 85% of 300 GB/s.
    assert found.predicted == pytest.approx(1e-5)
    assert compete(right, SetClock([1.0]), 1, None)[0].predicted == 0


def test_who_cannot_take_part_says_why_and_the_others_are_measured() -> None:
    three = contest(("first", refuse), ("second", lambda: lambda: torch.zeros(2)), ("third", refuse_later))
    found = compete(three, SetClock([2.0]), 1, None)
    assert [figure.contender for figure in found] == ["first", "second", "third"]
    assert found[0].refusal == "NotImplementedError: no kernel for this card"
    assert found[2].refusal == "RuntimeError: no reason given"
    assert (found[1].refusal, found[1].seconds) == ("", 2.0)


def test_turns_are_taken_round_by_round() -> None:
    order: list[str] = []
    seconds = HostClock().measure([lambda: order.append("a"), lambda: order.append("b")], 3)
    assert order == ["a", "b"] * 3
    assert [len(own) for own in seconds] == [3, 3]


def test_the_crossover_is_where_the_other_stays_faster() -> None:
    def figures(row_count: int, *seconds: float) -> list[Figure]:
        names = ("triton wide", "triton narrow", "cuBLAS")
        ways = [(name, lambda: lambda: torch.zeros(2)) for name in names]
        return compete(contest(*ways, row_count=row_count), SetClock(*[[each] for each in seconds]), 1, None)

    found = [*figures(16, 3, 1, 2), *figures(64, 3, 4, 2), *figures(128, 2, 9, 3), *figures(256, 4, 5, 3)]
    assert find_crossovers(found, "Products", "triton ", "cuBLAS") == [Crossover("[2, 2]", 128, 256)]
    assert find_crossovers(found[:3], "Products", "triton ", "cuBLAS") == [Crossover("[2, 2]", 16, None)]
    assert find_crossovers(found[3:6], "Products", "triton ", "cuBLAS") == [Crossover("[2, 2]", 0, 64)]
    assert find_crossovers(found, "Norms", "triton ", "cuBLAS") == []
