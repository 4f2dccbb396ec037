"""A model that scores whole sequences exactly as a worker would, with the same kernels."""

from pathlib import Path

import torch
from torch import Tensor

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.model_limits import choose_max_len
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.loading.load_runner import load_runner
from headrace.engine.step.loaded_model import LoadedModel
from headrace.evaluation.whole_sequence import BLOCK_SIZE, run_whole


class ServedModel:
    """A runner with room for one sequence."""

    def __init__(self, model: LoadedModel) -> None:
        self.precision = model.precision
        """Name of the weights' precision, for people."""
        self.weight_bytes = model.memory.weight_bytes
        """Memory that the weights take, in bytes."""
        self._runner = model.runner

    @classmethod
    def load(cls, source: Path, sequence_length: int, precision: str, *, exact: bool = False) -> "ServedModel":
        """Loads a model for sequences up to `sequence_length` tokens. `precision` and `exact` are those of
        `EngineConfig`. Raises InvalidCheckpoint, Unsupported or ConfigError."""
        settings = EngineConfig.of(
            precision=precision,
            exact=exact,
            block_size=BLOCK_SIZE,
            block_count=-(-sequence_length // BLOCK_SIZE),
            max_model_length=sequence_length,
        )
        model_config = read_model_config(source)
        return cls(load_runner(source, model_config, settings, choose_max_len(settings, model_config)))

    @torch.inference_mode()
    def logits(self, token_ids: tuple[int, ...]) -> Tensor:
        """Returns fp32 [tokens - 1, vocabulary]: the model's logits after every token except the last."""
        logits = run_whole(self._runner, token_ids)
        return torch.from_numpy(self._runner.sampler.in_host_memory(logits).copy())
