"""Kernels that compute nonsense are not used, and it is said which and why."""

import logging
import math

import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels import self_test
from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.self_test import candidates, choose_instructions
from headrace.engine.kernels.storage import Storage

pytestmark = needs_kernels


@pytest.fixture
def fresh() -> None:
    candidates.cache_clear()
    yield
    candidates.cache_clear()


def test_the_fastest_set_that_is_right_is_chosen() -> None:
    assert choose_instructions() is max(available())
    reasons = {each.instructions: each.reason for each in candidates()}
    assert reasons[Instructions.PORTABLE] == ""
    assert all(("does not have" in reasons[each]) == (each not in available()) for each in Instructions)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("flaw", [math.nan, 2.0])
def test_a_set_that_is_wrong_is_passed_over(
    flaw: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = KernelContext.product

    def wrong(context: KernelContext, weight: PackedWeight, inputs: Floats, **options: bool) -> Floats:
        found = right(context, weight, inputs, **options)
        is_flawed = context.instructions != Instructions.PORTABLE and weight.storage is Storage.U4
        return found * flaw if is_flawed else found

    monkeypatch.setattr(self_test.KernelContext, "product", wrong)
    with caplog.at_level(logging.ERROR):
        assert choose_instructions() is Instructions.PORTABLE
    best = next(each for each in candidates() if each.instructions is max(available()))
    if best.instructions is not Instructions.PORTABLE:
        assert "U4" in best.reason
        assert "kernels are not used" in caplog.text


@pytest.mark.usefixtures("fresh")
def test_without_kernels_every_set_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "load_kernels", lambda: None)
    monkeypatch.setattr(self_test, "available", list)
    assert {each.reason for each in candidates()} == {"the kernels are not compiled"}
    assert choose_instructions() is None
