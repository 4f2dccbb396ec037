"""The worker's settings."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from headrace.engine.contract.engine_config import EngineConfig
from headrace.errors import ConfigError
from headrace.lifecycle import ServiceSettings
from headrace.settings.json_object import JsonObject
from headrace.settings.names import Names
from headrace.settings.paths_by_name import PathsByName


class WorkerSettings(ServiceSettings, EngineConfig):
    """Settings of a worker: its own, and every option of its model."""

    service_id: str = "worker-0"
    """Unique name of this process."""
    model: str = ""
    """Name under which clients ask for the model, unless there are several."""
    models: PathsByName = Field(default={})
    """Several models in this one process, as NAME=FOLDER, separated by commas. They take turns on the device: some are
    awake, the others sleep until a request comes."""
    pinned: Names = Field(default=())
    """Names of the models, of several or of one with keep_alive_seconds, that stay awake."""
    awake_bytes: int = Field(default=0, ge=0)
    """Maximum bytes of weights and KV caches of all models that are awake, where there are several. 0 takes half of the
    memory that is free at the start, and of a GPU's four fifths."""
    asleep_bytes: int | None = Field(default=None, ge=0)
    """Maximum bytes of weights of all models that sleep in host memory (level 1), where there are several. Beyond it,
    they are dropped and mapped from disk again (level 2). Unset takes a quarter of the free memory at the start."""
    stay_seconds: float = Field(default=1.0, ge=0)
    """Time that a model stays awake at least, where there are several: it bounds how often they swap."""
    keep_alive_seconds: float = Field(default=0.0, ge=0)
    """Time without a request after which a model gives up its memory. The next request brings it back, and waits
    meanwhile. 0: it stays. Pinned models stay in any case."""
    swap_patience_seconds: float = Field(default=2.0, ge=0)
    """Time that requests for a sleeping model wait for busy ones to run empty. Then one of these sleeps in the middle
    of its requests, which continue later."""
    engine: Literal["model", "sim", "vllm"] = "model"
    """`model` runs the checkpoint; `vllm` lets vLLM run it, which has to be installed; `sim` plays a model at a chosen
    pace."""
    vllm_arguments: JsonObject = Field(default={})
    """Arguments of vLLM's engine by their names in its EngineArgs, such as {"tensor_parallel_size": 2}. They override
    arguments derived from the other settings."""
    folder: Path | None = None
    """Folder of the checkpoint, or a GGUF file, unless the engine is `sim`."""
    packed_folder: Path | None = Path("~/.cache/headrace/packed")
    """Folder for the weights of large models in the kernels' layout, which makes the next start quicker."""
    sim_vocabulary_size: int = Field(default=2048, ge=2)
    """Vocabulary of the sim engine."""
    sim_base_seconds: float = Field(default=0.0, ge=0)
    """Time of any step of the sim engine."""
    sim_prefill_seconds_per_token: float = Field(default=0.0, ge=0)
    """Time that the sim engine adds per prompt token in a step."""
    sim_decode_seconds_per_sequence: float = Field(default=0.0, ge=0)
    """Time that the sim engine adds per decoding sequence in a step."""
    hourly_price: float = Field(default=0.0, ge=0)
    """Price of one hour of the accelerator, in any currency that all workers share. 0: as in the device profile, or not
    known."""
    device_profile: Path | None = None
    """TOML file with the peak rates and the price of the accelerator, such as those in deploy/profiles."""
    memory_bandwidth: float = Field(default=0.0, ge=0)
    """Peak bytes per second of the accelerator's memory, of which MBU is a share. 0: as in the device profile; on a CPU
    without one, as measured at the first start."""
    arithmetic_rate: float = Field(default=0.0, ge=0)
    """Peak operations per second in the model's precision, of which MFU is a share. 0: as with memory_bandwidth."""
    role: Literal["both", "prefill", "decode"] = "both"
    """Part in the work on prompts: `prefill` computes them for others, `decode` continues them, `both` does both. Where
    a model has workers of the first kind, KV blocks travel when that is expected to be sooner."""
    kv_folder: Path | None = None
    """Folder for KV blocks that memory has no more room for, and that outlive the worker. They are as secret as the
    prompts that they were made of. Unset: none are kept."""
    kv_folder_bytes: int = Field(default=4 * 1024**3, ge=0)
    """Bytes that each worker takes in `kv_folder`, all at the start."""
    kv_store_addresses: Names = Field(default=())
    """Addresses of caches with a store of KV blocks that workers share, as HOST:PORT, separated by commas: prompts are
    continued from the blocks that any worker left there. All workers name the same. Empty: they share none."""
    step_seconds: float = Field(default=2.0, gt=0)
    """A step of the engine may take so long, or 20 times what it is expected to take. Then the process ends itself."""
    first_step_seconds: float = Field(default=60.0, gt=0)
    """Time that a step of the engine may take while nothing is known of its like, the first one above all."""
    attach_seconds: float = Field(default=10.0, gt=0)
    """Time for which requests wait for their gateway to attach before they are dropped."""

    @model_validator(mode="after")
    def _check_models(self) -> "WorkerSettings":
        if self.model and self.models:
            raise ConfigError("model names one model, and models several: give either", param="models")
        if unknown := [name for name in self.pinned if name not in (self.models or [self.model])]:
            raise ConfigError(f"pinned names {unknown[0]}, which is none of models", param="pinned")
        if self.models and self.engine != "model":
            raise ConfigError(f"the engine {self.engine} runs one model, not several", param="engine")
        if self.models and (self.adapters or self.draft_folder):
            raise ConfigError("adapters and draft_folder belong to one model, and models names several", param="models")
        if self.role != "both" and (self.models or self.engine != "model"):
            raise ConfigError(f"role is {self.role}, which is for one model of our own engine", param="role")
        if self.keep_alive_seconds and (self.engine == "vllm" or self.role != "both" or self._process_count > 1):
            message = "keep_alive_seconds is for models of our own engine in one process, without role"
            raise ConfigError(message, param="keep_alive_seconds")
        if self.models and self._process_count > 1:
            raise ConfigError("several models do not run on several processes: give each a worker", param="models")
        return self

    @property
    def _process_count(self) -> int:
        return self.tensor_parallel_count * self.pipeline_parallel_count
