"""Makes what the settings ask for."""

from pathlib import Path

import torch

from headrace.engine.attention.kv_cache import KvCache
from headrace.engine.engine import EngineSpec
from headrace.engine.engine_config import EngineConfig
from headrace.engine.loader.model_config import read_model_config
from headrace.engine.loader.weight_source import open_weights
from headrace.engine.model_runner import ModelRunner
from headrace.engine.models.decoder import Decoder
from headrace.engine.placement import choose_device, choose_precision
from headrace.engine.speculative.model_drafter import ModelDrafter
from headrace.engine.speculative.speculator import Speculator
from headrace.engine.speculative.vocabulary import check_same_vocabulary


def load_speculator(folder: Path, config: EngineConfig, spec: EngineSpec) -> Speculator | None:
    """None when speculation is off. Raises ConfigError for a draft model of another vocabulary, InvalidCheckpoint or
    Unsupported for one that cannot be loaded."""
    if config.speculation == "off":
        return None
    if config.draft_folder is None:
        return Speculator()
    check_same_vocabulary(folder, config.draft_folder)
    return Speculator(_load_drafter(config.draft_folder, config, spec))


def _load_drafter(folder: Path, config: EngineConfig, spec: EngineSpec) -> ModelDrafter:
    model_config = read_model_config(folder)
    device = choose_device(config)
    dtype = choose_precision(config, model_config, device)
    max_len = min(model_config.usual_len, spec.max_model_len)
    with torch.inference_mode():
        model = Decoder(model_config, max_len, open_weights(folder, model_config.quantization, None), dtype, device)
        cache = KvCache(
            model_config.layer_count,
            spec.block_count,
            spec.block_size,
            model_config.kv_head_count,
            model_config.head_size,
            dtype,
            device,
        )
    runner = ModelRunner(model, cache, model_config.head_count, model_config.kv_head_count, device)
    return ModelDrafter(runner, spec.vocab_size, max_len, spec.block_size, spec.max_step_token_count)
