"""Kernels at the sizes of a layer: beside torch in fp32, and their times."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from tests.benchmarks.gpu.contest import OURS, Contest, Figure, compete
from tests.benchmarks.gpu.first_light.trial import Trial
from tests.benchmarks.gpu.product_contests import list_products
from tests.benchmarks.gpu.program import list_contests
from tests.benchmarks.gpu.report import WRONG

from headrace.engine.triton.products import quantized_product
from headrace.engine.triton.products.tile_choice import choose_tiles

ROUNDS = 5


def compare_kernels(trial: Trial) -> Iterator[dict[str, Any]]:
    """Computes every contest once, and says how far each contender is from what is expected."""
    with torch.inference_mode():
        for contest in list_contests(trial.sizes, trial.device):
            for figure in compete(contest, trial.clock(), 1, None):
                yield _line(figure)


def time_tiles(trial: Trial) -> Iterator[dict[str, Any]]:
    """Times each product with every tile and number of stages, for the constants of `tile_choice.py`."""
    rows = (1, 16) if trial.is_rehearsal else (1, 16, 32, 64)
    with torch.inference_mode():
        for size in trial.sizes.products:
            for contest in list_products(size, rows, trial.device):
                for stage_count in (2, 3, 4):
                    for figure in _with_stages(trial, contest, stage_count):
                        yield _line(figure) | {"stages": stage_count}


def _with_stages(trial: Trial, contest: Contest, stage_count: int) -> list[Figure]:
    """Measures our kernels of a contest with another number of stages."""
    ours = tuple(each for each in contest.contenders if each.name.startswith(OURS))
    usual = choose_tiles(trial.device)
    narrow, middle, wide = (replace(tile, stage_count=stage_count) for tile in (usual.narrow, usual.middle, usual.wide))
    changed = replace(usual, narrow=narrow, middle=middle, wide=wide)
    with patch.object(quantized_product, "choose_tiles", lambda _: changed):
        return compete(replace(contest, contenders=ours), trial.clock(), ROUNDS, None)


def _line(figure: Figure) -> dict[str, Any]:
    """Returns what a contender did. A peer that does not take part is no fault of ours."""
    line = {"kind": figure.kind, "size": figure.contest, "rows": figure.row_count, "way": figure.contender}
    if figure.refusal:
        return line | {"refusal": figure.refusal, "ok": not figure.contender.startswith(OURS)}
    return line | {"microseconds": figure.seconds * 1e6, "error": figure.error, "ok": figure.error <= WRONG}
