"""A model that scores whole sequences and exposes its layers, for calibration. ServedModel is for evaluation."""

from pathlib import Path

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.stored_names import ModuleNaming
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, choose_max_len, describe_precision
from headrace.engine.checkpoints.weight_record import WeightRecord
from headrace.engine.checkpoints.weight_source import open_weights
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.gpu.choose_backend import choose_backend
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.device_setup import build_attention, choose_device
from headrace.engine.torch.runner import TorchRunner
from headrace.evaluation.whole_sequence import BLOCK_SIZE, run_whole


class SequenceModel:
    """A Decoder in torch, over a KV cache for one sequence."""

    def __init__(self, config: DecoderConfig, decoder: Decoder, record: WeightRecord, runner: TorchRunner) -> None:
        self.config = config
        self.decoder = decoder
        self.record = record
        self.precision = ""
        """Name of the weights' precision, for people."""
        self._runner = runner

    @classmethod
    def load(cls, source: Path, sequence_length: int, precision: str, device: str = "cpu") -> "SequenceModel":
        """Loads a model for sequences up to `sequence_length` tokens. Raises InvalidCheckpoint, Unsupported or
        ConfigError."""
        model_config = read_model_config(source)
        settings = EngineConfig.of(
            device=device,
            precision=precision,
            exact=True,
            block_size=BLOCK_SIZE,
            block_count=-(-sequence_length // BLOCK_SIZE),
            max_model_length=sequence_length,
        )
        torch_device = choose_device(settings)
        backend = choose_backend(settings, model_config, torch_device, "calibration observes its layers")
        max_len = choose_max_len(settings, model_config)
        with torch.inference_mode():
            weights = open_weights(
                source, model_config.quantization, ROUNDED_BITS.get(precision), naming=ModuleNaming.of(model_config)
            )
            record = WeightRecord(weights)
            decoder = Decoder(model_config, record, backend.operators, backend.dtype, torch_device)
            attention = build_attention(settings, backend, decoder, max_len)
        runner = TorchRunner(decoder, attention, backend)
        model = cls(model_config, decoder, record, runner)
        model.precision = describe_precision(settings, model_config, backend.dtype)
        return model

    @torch.inference_mode()
    def logits(self, token_ids: tuple[int, ...]) -> Tensor:
        """Returns fp32 [tokens - 1, vocabulary]: the model's logits after every token except the last."""
        return torch.as_tensor(run_whole(self._runner, token_ids))
