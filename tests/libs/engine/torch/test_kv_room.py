"""The KV cache gets what the largest steps leave, beside a draft model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_models import make_family

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weight_source import open_weights
from headrace.engine.gpu.draft_memory import draft_memory
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.backends.torch_backend import torch_backend
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.device.device_memory import LaterMemory
from headrace.engine.torch.device_setup import count_blocks
from headrace.engine.torch.kv_room import KV_SHARE, measure_kv_room
from headrace.engine.torch.trial_steps import largest_steps, steps_of_all_sizes
from headrace.errors.tree import ConfigError

CPU = torch.device("cpu")


class CountedMemory:
    """A device with so many free bytes, where each computation takes as many as it is said to."""

    def __init__(self, free: int, peak: int) -> None:
        self._free = free
        self._peak = peak
        self.computed = 0

    def free_bytes(self) -> int:
        return self._free

    def peak_bytes(self, compute: Callable[[], None]) -> int:
        compute()
        self.computed += 1
        return self._peak


def test_the_largest_steps_are_computed_and_what_they_take_is_left_free(tmp_path: Path) -> None:
    make_family(tmp_path, "llama", num_hidden_layers=1)
    config, model = engine_config(max_step_token_count=40, max_running_count=6), read_model_config(tmp_path)
    backend = torch_backend(config, model, torch.float32, CPU)
    decoder = Decoder(model, open_weights(tmp_path, None, None), backend.operators, torch.float32, CPU)
    memory = CountedMemory(100 << 20, 30 << 20)
    with torch.inference_mode():
        assert measure_kv_room(memory, config, backend, decoder, 64) == int((70 << 20) * KV_SHARE)
        assert measure_kv_room(CountedMemory(1, 30), config, backend, decoder, 64) == 0
    assert memory.computed == 1


def test_a_step_is_as_large_as_the_settings_allow() -> None:
    config = engine_config(max_step_token_count=40, max_running_count=6, block_size=16)
    prompt, decodes = largest_steps(config, 100)
    assert (prompt.token_count, prompt.span_count, prompt.logit_count) == (40, 1, 6)
    assert (decodes.token_count, decodes.span_count, decodes.logit_count) == (6, 6, 6)
    assert decodes.positions.tolist() == [99] * 6
    assert set(decodes.slots(16).tolist()) == {99 % 16}
    assert largest_steps(config, 20)[0].token_count == 20
    assert np.array_equal(largest_steps(config, 1)[0].logit_rows, [0])


def test_steps_of_all_sizes_reach_every_choice_of_kernels() -> None:
    """Kernels are chosen by rows, at powers of two."""

    def sizes(steps: list[StepArrays]) -> list[tuple[int, int]]:
        return [(each.token_count, each.span_count) for each in steps]

    found = sizes(steps_of_all_sizes(engine_config(max_step_token_count=40, max_running_count=6), 100))
    assert found == [(2, 1), (4, 1), (8, 1), (16, 1), (32, 1), (40, 1), (1, 1), (2, 2), (4, 4), (6, 6)]


def test_a_draft_model_has_as_many_blocks_and_its_weights_beside(tmp_path: Path) -> None:
    """Each block costs those of both models."""
    config = engine_config(max_running_count=64)
    later = LaterMemory(weight_bytes=1000, block_bytes=50)
    assert count_blocks(config, 1 << 20, 100, 1600, later) == 4
    assert count_blocks(config, 1 << 20, 100, 1600, LaterMemory()) == 16
    with pytest.raises(ConfigError, match="0 MiB left for keys and values"):
        count_blocks(config, 1 << 20, 100, 1100, later)
    make_family(tmp_path, "llama", num_hidden_layers=2)
    drafted = draft_memory(engine_config(draft_folder=tmp_path, speculation="on"), CPU)
    parameters = Decoder(
        read_model_config(tmp_path),
        open_weights(tmp_path, None, None),
        torch_backend(config, read_model_config(tmp_path), torch.float32, CPU).operators,
        torch.float32,
        CPU,
    ).parameter_count
    assert drafted.weight_bytes == 4 * parameters
    assert drafted.block_bytes > 0
    assert draft_memory(engine_config(), CPU) == LaterMemory()
    assert draft_memory(engine_config(draft_folder=tmp_path, speculation="off"), CPU) == LaterMemory()
