"""Answers are remembered under the fingerprint of what gave them."""

from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_models import make_oracle

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.loading.load_text_engine import load_text_engine


def fingerprint(folder: Path, **settings: Any) -> str:
    return load_text_engine(folder, engine_config(block_count=8, **settings)).spec.fingerprint


def test_it_is_the_same_at_every_start_and_for_any_number_of_threads() -> None:
    first = fingerprint(CHECKPOINT)
    assert first
    assert fingerprint(CHECKPOINT) == fingerprint(CHECKPOINT, thread_count=1) == first


def test_other_weights_and_precisions_have_others() -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"precision": "int8"},
        {"precision": "int4"},
        {"precision": "int4", "exact": True},
        {"precision": "int4", "kv_precision": "float32"},
    ]
    found = [fingerprint(CHECKPOINT, **each) for each in settings]
    assert len({*found, fingerprint(DRAFT)}) == len(settings) + 1


@pytest.mark.parametrize("length", [1, 3])
def test_a_short_context_is_enough(tmp_path: Path, length: int) -> None:
    make_oracle(tmp_path, "grouped")
    assert fingerprint(tmp_path, max_model_length=length)
