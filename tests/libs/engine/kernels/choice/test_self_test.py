"""Kernels that compute nonsense are not used, and it is said which and why."""

import ctypes
import logging
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels import library
from headrace.engine.kernels.choice import self_test
from headrace.engine.kernels.choice.candidates import candidates, choose_instructions, verdicts_here
from headrace.engine.kernels.choice.trials.run_trials import Result, run_trials
from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.library import INSTRUCTIONS_VARIABLE, Instructions, available, load_kernels, why_not
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.storage import Storage
from headrace.errors import ConfigError

pytestmark = [needs_kernels, pytest.mark.usefixtures("fresh_candidates")]


def test_the_fastest_set_that_is_right_is_chosen() -> None:
    assert choose_instructions() is max(available())
    reasons = {each.instructions: each.reason for each in candidates()}
    assert reasons[Instructions.PORTABLE] == ""
    assert reasons == {each: why_not(each) for each in Instructions}


@pytest.mark.parametrize(("flaw", "storage"), [(math.nan, Storage.U4), (2.0, Storage.U4), (2.0, Storage.Q6_K)])
def test_a_set_that_is_wrong_is_passed_over(
    flaw: float, storage: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = KernelContext.product

    def wrong(context: KernelContext, weight: PackedWeight, inputs: Floats, **options: Any) -> Floats:
        found = right(context, weight, inputs, **options)
        is_flawed = context.instructions != Instructions.PORTABLE and weight.storage is storage
        return found * flaw if is_flawed else found

    monkeypatch.setattr(KernelContext, "product", wrong)
    with caplog.at_level(logging.ERROR):
        assert choose_instructions() is Instructions.PORTABLE
    best = next(each for each in candidates() if each.instructions is max(available()))
    if best.instructions is not Instructions.PORTABLE:
        assert storage.name in best.reason
        assert "kernels are not used" in caplog.text


def test_a_set_that_rounds_weights_wrong_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = load_kernels()
    right = library.headrace_pack_rounded

    def wrong(instructions: Instructions, *arguments: Any) -> int:
        failure: int = right(instructions, *arguments)
        ctypes.c_uint8.from_address(arguments[-1]).value ^= instructions is not Instructions.PORTABLE
        return failure

    monkeypatch.setattr(library, "headrace_pack_rounded", wrong)
    assert choose_instructions() is Instructions.PORTABLE
    reasons = {each.reason for each in candidates() if each.instructions in available()}
    assert reasons <= {"", "the rounding to U4 has other bits than that of the portable kernels"}


def test_a_set_that_is_refused_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(context: KernelContext) -> str:
        return "" if context.instructions is Instructions.PORTABLE else "the product is off"

    monkeypatch.setattr(self_test, "_compare_with_portable", refuse)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert choose_instructions() is Instructions.PORTABLE
    logged = [record.__dict__["kernels"] for record in caplog.records if record.message == "kernels are not used"]
    assert logged == [each.name for each in reversed(available()) if each is not Instructions.PORTABLE]


PATHS = [name for name, _ in run_trials(KernelContext(1, Instructions.PORTABLE))] if available() else []


@pytest.mark.parametrize("path", [PATHS[0], *PATHS[1::9], PATHS[-1]] if PATHS else [])
def test_one_wrong_bit_of_one_path_is_enough(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    def run_wrong(context: KernelContext) -> Iterator[tuple[str, Result]]:
        for name, found in run_trials(context):
            is_wrong = name == path and context.instructions is not Instructions.PORTABLE
            yield name, flipped(found) if is_wrong else found

    monkeypatch.setattr(self_test, "run_trials", run_wrong)
    assert choose_instructions() is Instructions.PORTABLE
    reasons = {each.reason for each in candidates() if each.instructions in available()}
    assert reasons <= {"", f"the {path} has other bits than that of the portable kernels"}


def flipped(found: Result) -> Result:
    """A copy with the last bit of its first number changed."""
    raw = found.copy().view(np.uint8)
    raw.reshape(-1)[0] ^= 1
    return raw


def test_every_way_of_a_product_is_tried() -> None:
    """One row, two, those that leave a tail, and more than any cache keeps: beside every storage, exact or not."""
    for weight in (
        "F32",
        "F16",
        "BF16",
        *(f"{kind} weights in groups of {size}" for kind in ("U4", "U8") for size in (32, 128)),
    ):
        assert {f"product of {rows} rows with {weight}" in " ".join(PATHS) for rows in (1, 2, 3, 9, 18)} == {True}
    assert "exact product of 1 rows with U4 weights in groups of 128" in PATHS
    assert "product of 131 rows with U4 weights in groups of 128" in PATHS
    for kind in ("Q4_1", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"):
        assert {f"product of {rows} rows with {kind} weights" for rows in (1, 2, 5)} <= set(PATHS)
        assert f"exact product of 1 rows with {kind} weights" in PATHS


def test_every_storage_of_keys_is_tried_and_so_is_what_rounds_weights() -> None:
    for kind in ("F32", "BF16", "S8", "FP8"):
        assert f"step 0 with {kind} keys and values" in PATHS
    assert {"rounding to U4", "step that sees all tokens with F16 keys and values"} <= set(PATHS)


def test_numbers_of_trials_are_finite() -> None:
    """NaN and infinity would hide mistakes."""
    for name, found in run_trials(KernelContext(1, Instructions.PORTABLE)):
        assert np.isfinite(found).all(), name


def test_a_wrong_set_that_is_asked_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    best = max(available())
    if best is Instructions.PORTABLE:
        pytest.skip("this machine has one instruction set; to run it: an x86-64 processor with AVX2")
    monkeypatch.setenv(INSTRUCTIONS_VARIABLE, best.name)
    monkeypatch.setattr(self_test, "_compare_with_portable", lambda context: "the product is off")
    with pytest.raises(ConfigError, match=f"asks for {best.name.lower()}, which cannot be used: the product is off"):
        choose_instructions()


@pytest.mark.alone
def test_it_takes_a_small_part_of_a_start() -> None:
    """Compares the least of several runs with that of as many processes that only import the engine."""
    tests, imports = [], []
    command = [sys.executable, "-c", "import headrace.engine.loading.load_text_engine"]
    for _ in range(5):
        candidates.cache_clear()
        verdicts_here.cache_clear()
        self_test._portable_results.cache_clear()
        tests.append(_seconds_of(candidates))
        imports.append(_seconds_of(lambda: subprocess.run(command, check=True, timeout=60)))
    assert min(tests) < 0.5 * min(imports)


def _seconds_of(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def test_without_kernels_every_set_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "load_kernels", lambda: None)
    assert {each.reason for each in candidates()} == {"the kernels are not compiled"}
    assert choose_instructions() is None
