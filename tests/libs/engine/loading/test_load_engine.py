"""Every model on the CPU lies on all NUMA nodes in turn, and no model elsewhere."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.numa_machine import NumaMachine
from tests.libs.engine.tiny_encoders import make_decoder, make_encoder, write_sentence_settings

from headrace.demo_model import CHECKPOINT
from headrace.engine.loading.load_engine import load_engine
from headrace.errors import HeadraceError


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> NumaMachine:
    return NumaMachine(monkeypatch)


@pytest.mark.parametrize("settings", [{}, {"kernels": "torch"}, {"precision": "bfloat16"}, {"device": "cpu:0"}])
def test_models_that_make_text_are_interleaved(machine: NumaMachine, settings: dict[str, Any]) -> None:
    load_engine(CHECKPOINT, engine_config(block_count=8, **settings))
    assert machine.asked == [[0, 1]]


def test_encoders_are_interleaved(machine: NumaMachine, tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    write_sentence_settings(tmp_path)
    load_engine(tmp_path, engine_config())
    assert machine.asked == [[0, 1]]


def test_decoders_that_make_embeddings_are_interleaved(machine: NumaMachine, tmp_path: Path) -> None:
    make_decoder(tmp_path)
    load_engine(tmp_path, engine_config(block_count=8))
    assert machine.asked == [[0, 1]]


def test_groups_are_interleaved_before_their_processes_are_started(machine: NumaMachine) -> None:
    with pytest.raises(HeadraceError, match="it must divide them"):
        load_engine(CHECKPOINT, engine_config(tensor_parallel_count=7))
    assert machine.asked == [[0, 1]]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU; to run it: a machine without one")
def test_models_on_other_devices_are_not(machine: NumaMachine) -> None:
    with pytest.raises(HeadraceError, match="no CUDA device"):
        load_engine(CHECKPOINT, engine_config(device="cuda"))
    assert machine.asked == []
