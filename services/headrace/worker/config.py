"""The worker's settings."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from headrace.lifecycle import ServiceSettings
from headrace.settings.paths_by_name import PathsByName


class WorkerSettings(ServiceSettings):
    """Settings of a worker."""

    service_id: str = "worker-0"
    """Unique name of this process."""
    model: str = Field(min_length=1)
    """Name under which clients ask for the model."""
    engine: Literal["model", "sim"] = "model"
    """`model` runs the checkpoint; `sim` plays a model at a chosen pace."""
    folder: Path | None = None
    """Folder of the checkpoint, or a GGUF file, unless the engine is `sim`."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda:0."""
    precision: Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"] = "auto"
    """Precision of the weights. `auto`: as the checkpoint has them if it is quantised, else float32 on the CPU and the
    checkpoint's own type elsewhere. int8 and int4 round plain weights while they are loaded."""
    exact: bool = False
    """Whether quantised weights are multiplied by inputs as they are. Otherwise inputs are rounded to 8 bits for it."""
    kv_precision: Literal["auto", "float32", "bfloat16", "int8", "fp8"] = "auto"
    """Precision of keys and values. int8 and fp8 have one scale per token and head. `auto`: int8 beside quantised
    weights, unless `exact`; else as the model computes."""
    kernels: Literal["auto", "torch"] = "auto"
    """`torch` runs the model operation by operation even where the fused kernels could."""
    packed_folder: Path | None = Path("~/.cache/headrace/packed")
    """Folder for the weights of large models in the kernels' layout, which makes the next start quicker."""
    packed_max_bytes: int = Field(default=32 * 1024**3, ge=1)
    """Most bytes in the folder of packed weights. The least recently used go first, but none that is in use."""
    thread_count: int = Field(default=0, ge=0)
    """Threads for tensor arithmetic. 0 takes all cores, or all but one where there are no compiled kernels."""
    max_model_length: int = Field(default=0, ge=0)
    """Longest prompt plus output, in tokens. 0 takes what the model was made for."""
    long_context: Literal["stop", "evict"] = "stop"
    """Choice when prompt and output reach the longest length: `stop` ends the request, `evict` goes on with its first
    tokens and the last ones, so that `max_tokens` may exceed the context."""
    max_running_count: int = Field(default=64, ge=1)
    """Most sequences in the running batch."""
    max_step_token_count: int = Field(default=512, ge=16)
    """Most tokens in one engine step."""
    block_size: int = Field(default=16, ge=1)
    """Tokens per KV block."""
    block_count: int = Field(default=0, ge=0)
    """KV blocks. 0 takes enough for the running batch, as far as memory allows."""
    prefix_cache: bool = True
    """Whether KV blocks of finished prompts are kept and shared."""
    speculation: Literal["off", "on"] = "on"
    """Guessing of tokens: those that a grammar forces, repetitions in the text, and what the draft model says.
    The tokens are the same, only more of them per step."""
    draft_folder: Path | None = None
    """Folder of a small checkpoint with the same vocabulary, which guesses for this one."""
    adapters: PathsByName = Field(default={})
    """LoRA adapters that requests may choose, as NAME=FOLDER, separated by commas."""
    sim_vocabulary_size: int = Field(default=2048, ge=2)
    """Vocabulary of the sim engine."""
    sim_base_seconds: float = Field(default=0.0, ge=0)
    """Time of any step of the sim engine."""
    sim_prefill_seconds_per_token: float = Field(default=0.0, ge=0)
    """Time that the sim engine adds per prompt token in a step."""
    sim_decode_seconds_per_sequence: float = Field(default=0.0, ge=0)
    """Time that the sim engine adds per decoding sequence in a step."""
    hourly_price: float = Field(default=0.0, ge=0)
    """Price of one hour of the accelerator, in any currency that all workers share. 0: not known."""
    step_seconds: float = Field(default=2.0, gt=0)
    """A step of the engine may take so long, or 20 times what it is expected to take. Then the process ends itself."""
    first_step_seconds: float = Field(default=60.0, gt=0)
    """Time that a step of the engine may take while nothing is known of its like, the first one above all."""
    attach_seconds: float = Field(default=10.0, gt=0)
    """Time for which requests wait for their gateway to attach before they are dropped."""
