"""Loads a checkpoint with vLLM."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.engine.checkpoints.sampling_defaults import read_sampling_defaults
from headrace.engine.contract.engine import Engine, EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import SamplingParams
from headrace.engine.engines.fingerprint import fingerprint_of
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.vllm.parameter_count import count_parameters
from headrace.engine.vllm.visible_cards import count_cards, show_cards
from headrace.errors.tree import ConfigError, InvalidCheckpoint
from headrace.folder_text.folder_ends import end_token_ids

GIB = 1024**3


def load_vllm_engine(folder: Path, config: EngineConfig, arguments: dict[str, Any]) -> Engine:
    """Loads a checkpoint. `arguments`: fields of vLLM's EngineArgs, which go before ours. Raises ConfigError where vLLM
    is not installed or takes other arguments, and InvalidCheckpoint."""
    _prepare_environment(config)
    show_cards(config.device, arguments)
    try:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine
    except ImportError as error:
        raise ConfigError(
            f"the engine vllm needs vLLM in the worker's Python, which says: {error}. Install it there, or name a "
            "Python that has it and Headrace: headrace up --engine vllm --worker-python PATH",
            param="engine",
        ) from None
    from headrace.engine.vllm.kv_event_log import KvEventLog
    from headrace.engine.vllm.load_meter import LoadMeter
    from headrace.engine.vllm.vllm_engine import VllmEngine

    blocks, meter = KvEventLog(), LoadMeter()
    adapters = _adapters(config)
    try:
        given = EngineArgs(**(_defaults(folder, config, arguments) | arguments))
    except TypeError as error:
        raise ConfigError(f"vllm_arguments: {error}", param="vllm_arguments") from None
    try:
        if config.prefix_cache and given.create_model_config().runner_type == "generate":
            given.kv_events_config = blocks.settings
        core = LLMEngine.from_engine_args(given, stat_loggers=[lambda *_: meter], enable_multiprocessing=False)
    except (ValueError, OSError, RuntimeError) as error:
        raise InvalidCheckpoint(f"vLLM cannot load {folder}: {error}") from error
    spec = _spec_of(core, folder, config)
    return VllmEngine(core, _fingerprinted(VllmEngine(core, spec, meter, blocks, adapters)), meter, blocks, adapters)


def _prepare_environment(config: EngineConfig) -> None:
    """Tells vLLM, before it is imported, what it only reads from the environment."""
    # Its scheduler runs in this process: in a separate one it would outlive a worker that is killed. The processes that
    # compute notice.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Its lines go into our log, and those of its other processes to the same file.
    os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")
    if config.device == "cpu":
        cores = sorted(os.sched_getaffinity(0))
        chosen = cores[: config.thread_count or usable_core_count()]
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, chosen)))
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(max(1, config.kv_cache_bytes // GIB or 2)))


def _defaults(folder: Path, config: EngineConfig, arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments that follow from our settings, and from `arguments` that were given."""
    # On one card the model runs in this process: another would be one hop more for each step.
    has_processes = config.device == "cpu" or count_cards(arguments) > 1
    given: dict[str, Any] = {
        "model": str(folder),
        "dtype": config.precision if config.precision in ("float32", "bfloat16", "float16") else "auto",
        "max_num_seqs": config.max_running_count,
        "scheduling_policy": "priority",
        "distributed_executor_backend": "mp" if has_processes else "uni",
        "generation_config": "vllm",
        "structured_outputs_config": {"backend": "guidance"},
    }
    if not config.prefix_cache:
        given["enable_prefix_caching"] = False
    if config.max_model_length:
        given["max_model_len"] = config.max_model_length
    if config.block_count:
        given["num_gpu_blocks_override"] = config.block_count
    if config.adapters:
        given |= {"enable_lora": True, "max_loras": len(config.adapters), "max_lora_rank": 64}
    return given


def _adapters(config: EngineConfig) -> dict[str, Any]:
    from vllm.lora.request import LoRARequest

    return {
        name: LoRARequest(name, number, str(path)) for number, (name, path) in enumerate(config.adapters.items(), 1)
    }


def _spec_of(core: Any, folder: Path, config: EngineConfig) -> EngineSpec:
    model, cache = core.vllm_config.model_config, core.vllm_config.cache_config
    scheduler = core.vllm_config.scheduler_config
    is_encoder = model.runner_type == "pooling"
    defaults = config.sampling_defaults == "checkpoint" and not is_encoder
    return EngineSpec(
        architecture=model.architecture,
        vocabulary_size=model.get_vocab_size(),
        max_model_length=model.max_model_len,
        max_running_count=scheduler.max_num_seqs,
        max_step_token_count=scheduler.max_num_batched_tokens,
        block_size=cache.block_size,
        block_count=cache.num_gpu_blocks or 0,
        eos_token_ids=_eos_token_ids(model) | frozenset(end_token_ids(folder)),
        device=config.device,
        precision=model.quantization or str(model.dtype).removeprefix("torch."),
        parameter_count=count_parameters(folder, model.hf_config.to_dict()),
        embedding_size=model.embedding_size if is_encoder else None,
        adapters=dict.fromkeys(config.adapters, ""),
        default_sampling=read_sampling_defaults(folder) if defaults else SamplingParams(),
    )


def _eos_token_ids(model: Any) -> frozenset[int]:
    found = model.try_get_generation_config().get("eos_token_id", getattr(model.hf_config, "eos_token_id", None))
    return frozenset([found] if isinstance(found, int) else found or ())


def _fingerprinted(engine: Any) -> EngineSpec:
    """Returns the facts with a digest of the model, for embeddings: their results are kept."""
    spec: EngineSpec = engine.spec
    return spec if spec.embedding_size is None else replace(spec, fingerprint=fingerprint_of(engine))
