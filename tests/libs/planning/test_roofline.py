"""Bytes and operations are counted from a launch's shapes, window and experts included."""

from pathlib import Path

import pytest
from tests.libs.engine.tiny_models import make_family

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.planning.footprint import Footprint, list_footprints
from headrace.planning.roofline import attention_launch, product_launch


def plain(folder: Path, family: str) -> Footprint:
    make_family(folder, family)
    return next(each for each in list_footprints(read_model_config(folder), "cpu") if each.precision == "float32")


def test_a_product(tmp_path: Path) -> None:
    footprint = plain(tmp_path, "llama")
    head = footprint.shape.products[-1]
    launch = product_launch(footprint, head, 3)
    assert launch.operations == 2 * 3 * head.in_size * head.out_size
    assert launch.moved_bytes == 4 * (head.in_size * head.out_size + 3 * (head.in_size + head.out_size))


def test_one_row_reads_the_experts_that_it_chooses_and_many_read_all(tmp_path: Path) -> None:
    footprint = plain(tmp_path, "mixtral")
    product = next(each for each in footprint.shape.products if each.copies > 1)
    expert = sum(map(footprint.module_bytes, product.modules))
    one, many = product_launch(footprint, product, 1), product_launch(footprint, product, 1000)
    rows = 4 * product.chosen * (product.in_size + product.out_size)
    assert one.moved_bytes == pytest.approx(product.chosen * expert + rows)
    assert many.moved_bytes == pytest.approx(product.copies * expert + 1000 * rows)


def test_attention_reads_the_window_alone(tmp_path: Path) -> None:
    footprint = plain(tmp_path, "gemma2")
    windows = footprint.shape.config.windows
    local = next(layer for layer, window in enumerate(windows) if window is not None)
    whole = windows.index(None)
    near, far = (attention_launch(footprint, local, 1, context, 1) for context in (1000, 2000))
    assert near.moved_bytes == pytest.approx(far.moved_bytes)
    near, far = (attention_launch(footprint, whole, 1, context, 1) for context in (1000, 2000))
    assert far.operations == pytest.approx(2 * near.operations)


def test_a_prompt_has_half_a_square_of_pairs(tmp_path: Path) -> None:
    footprint = plain(tmp_path, "llama")
    config = footprint.shape.config
    launch = attention_launch(footprint, 0, 100, 100, 1)
    assert launch.operations == 4 * config.head_count * config.head_size * sum(range(1, 101))
