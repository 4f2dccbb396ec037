"""The settings of a TextEngine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.errors.tree import ConfigError


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings for where the model runs and how much it may hold at once."""

    device: str = "cpu"
    """A torch device: cpu, cuda, cuda:1."""
    precision: str | None = None
    """Precision of the model: float32, bfloat16 or float16; or int8 or int4, to which plain weights are rounded while
    they are loaded. Unset: float32 on the CPU, the checkpoint's own elsewhere."""
    exact: bool = False
    """Whether quantized weights are multiplied by inputs as they are. Otherwise inputs are rounded to 8 bits for it,
    and the output head is held in 8 bits: faster, with a perplexity that differs by a fraction of a percent."""
    kernels: Literal["auto", "torch"] = "auto"
    """Kernels to run on. `torch` runs the model operation by operation even where the fused kernels could run a step in
    one call."""
    packed_cache: Path | None = None
    """Folder for the weights as the fused kernels want them, which makes the next start quicker. Unset: not kept."""
    packed_cache_bytes: int = 32 << 30
    """Most bytes in the folder `packed_cache`. The least recently used go first, but none that is in use."""
    kv_precision: Literal["auto", "float32", "bfloat16", "int8", "fp8"] = "auto"
    """Precision of keys and values. int8 and fp8 have one scale per token and head. `auto`: int8 beside quantized
    weights, unless `exact`; else as activations are."""
    block_size: int = 16
    """Tokens per KV block."""
    block_count: int | None = None
    """KV blocks. Unset: as many as `max_running_count` requests of full length need, within `kv_cache_bytes`."""
    kv_cache_bytes: int | None = None
    """Upper bound for the KV cache where `block_count` is unset. Unset: a quarter of the free memory on the CPU,
    most of it on a GPU."""
    max_running_count: int = 64
    """Most sequences in one step."""
    max_step_token_count: int = 512
    """Token budget of one step."""
    max_model_len: int | None = None
    """Longest prompt plus output, in tokens. Unset: as the checkpoint says, which is also the most."""
    long_context: Literal["stop", "evict"] = "stop"
    """Behavior when prompt and output reach `max_model_len`: the request ends, or goes on with its first tokens and the
    last ones, so that `max_tokens` may exceed the context. See `eviction`."""
    thread_count: int | None = None
    """Threads of the kernels, shared by the whole process. Unset: as many as there are cores. Where there are no
    kernels, those of torch, and unset one less: they all wait for one that another process holds up."""
    prefix_cache: bool = True
    speculation: Literal["off", "on"] = "off"
    """Guessing of tokens from what the grammar forces, from repetitions in the text, and by the draft model. The tokens
    are the same; only their number per step differs."""
    draft_folder: Path | None = None
    """Checkpoint of a small model with the same vocabulary, which guesses where nothing else does."""
    adapters: Mapping[str, Path] = field(default_factory=dict)
    """Folders of LoRA adapters as PEFT saves them, by the name under which requests choose them."""

    def __post_init__(self) -> None:
        for name in ("block_size", "max_running_count", "max_step_token_count", "packed_cache_bytes"):
            self._require_positive(name, getattr(self, name))
        for name in ("block_count", "kv_cache_bytes", "max_model_len", "thread_count"):
            if getattr(self, name) is not None:
                self._require_positive(name, getattr(self, name))
        if "" in self.adapters:
            raise ConfigError("adapters: an adapter has no name.")
        if self.max_step_token_count < self.block_size:
            raise ConfigError(
                f"max_step_token_count is {self.max_step_token_count}, less than a block of {self.block_size}: "
                "no prompt could ever be split; raise it."
            )

    @staticmethod
    def _require_positive(name: str, value: int) -> None:
        if value < 1:
            raise ConfigError(f"{name} is {value}: it must be at least 1.")
