"""Every option of a model, declared once: engine, worker, supervisor and command line all read them here."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from headrace.errors.tree import ConfigError
from headrace.settings import Settings
from headrace.settings.paths_by_name import PathsByName

GPU_DEFAULTS: dict[str, Any] = {"max_step_token_count": 2048, "max_step_seconds": 0.05}
"""Defaults of a GPU, which reads prompts faster than a CPU, and better in longer parts."""


class EngineConfig(Settings):
    """Settings for where a model runs and how much it may hold at once."""

    device: str = "cpu"
    """Torch device, such as cpu or cuda:0."""
    precision: Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"] = "auto"
    """Precision of the weights. `auto`: as the checkpoint has them if it is quantized, else float32 on the CPU and the
    checkpoint's own type elsewhere. int8 and int4 round plain weights to codes while they are loaded, bfloat16 and
    float16 to 16 bits, with which the CPU's kernels compute in float32."""
    exact: bool = False
    """Multiply quantized weights by inputs as they are. Otherwise inputs are rounded to 8 bits for it on a CPU, and the
    output head is held in 8 bits: faster, with a perplexity that differs by a fraction of a percent."""
    kv_precision: Literal["auto", "float32", "bfloat16", "int8", "fp8"] = "auto"
    """Precision of keys and values. int8 and fp8 have one scale per token and head and take a quarter of the memory of
    float32. `auto`: on the CPU int8 beside quantized weights, unless `exact`; else the 16 bits that `precision` names,
    or those in which the model computes."""
    kernels: Literal["auto", "torch", "triton"] = "auto"
    """`torch` runs the model operation by operation even where the C++ kernels, or on a GPU those in Triton, could run
    it. `triton` insists on the latter: on a CPU they need TRITON_INTERPRET=1, which shows what they do, slowly."""
    cuda_graphs: Literal["auto", "on", "off"] = "auto"
    """Replay steps of decodes as CUDA graphs, captured when the model is loaded, one for each of a few numbers of rows.
    `auto`: on a GPU, where the kernels in Triton run the model. `on` insists."""
    overlap: Literal["auto", "on", "off"] = "auto"
    """Plan and launch a step while the device still computes the one before, which feeds it its tokens. Not while a
    request has a grammar, penalties, log-probabilities or draft tokens: all of them need the tokens before. `auto`: on
    a GPU. `on` insists."""
    packed_folder: Path | None = None
    """Folder for weights in the kernels' layout, which makes the next start quicker. A worker has one by default,
    ~/.cache/headrace/packed; elsewhere unset keeps none."""
    packed_max_bytes: int = Field(default=32 * 1024**3, ge=1)
    """Maximum bytes in the folder of packed weights. The least recently used go first, but none that is in use."""
    thread_count: int = Field(default=0, ge=0)
    """Threads of the kernels, shared by the whole process. 0 takes all cores, or where there are no kernels all but one
    for torch, whose threads all wait for one that another process holds up."""
    max_model_length: int = Field(default=0, ge=0)
    """Longest prompt plus output, in tokens. 0 takes the length that the model was made for, which is also the most."""
    long_context: Literal["stop", "evict"] = "stop"
    """Choice when prompt and output reach the longest length: `stop` ends the request, `evict` continues with its first
    tokens and the last ones, so that an output may be longer than the context."""
    max_running_count: int = Field(default=64, ge=1)
    """Maximum number of sequences in one step."""
    max_step_token_count: int = Field(default=512, ge=16)
    """Maximum number of tokens in one step: prompts are read in parts of this size. 2048 on a GPU, unless it is set."""
    max_step_seconds: float = Field(default=0.2, ge=0)
    """Seconds that a step which reads prompts should take at most while a stream waits for its next token: prompts are
    read in smaller parts then. Where the streams alone take more than half of it, a part takes as long as they do.
    Streams of the batch class do not count. 0 reads prompts in parts of `max_step_token_count`. 0.05 on a GPU, unless
    it is set."""
    block_size: int = Field(default=16, ge=1)
    """Tokens per KV block."""
    block_count: int = Field(default=0, ge=0)
    """KV blocks. 0 takes enough for `max_running_count` requests of full length, within `kv_cache_bytes`."""
    kv_cache_bytes: int = Field(default=0, ge=0)
    """Maximum bytes of the KV cache where `block_count` is 0. 0 takes a quarter of the free memory on the CPU, and
    most of what the largest steps leave on a GPU."""
    prefix_cache: bool = True
    """Keep the KV blocks of finished prompts and share them."""
    state_snapshot_count: int = Field(default=0, ge=0)
    """Maximum number of snapshots that the prefix cache keeps of the states of models such as LFM2, from which prompts
    that begin alike continue. They take a quarter of the memory of the KV cache at most. 0 takes two for each sequence
    that may run."""
    sampling_defaults: Literal["checkpoint", "neutral"] = "checkpoint"
    """Sampling where a request says nothing: as the model's `generation_config.json` recommends, or from the model's
    own distribution."""
    speculation: Literal["off", "on", "mtp"] = "on"
    """Exact speculative decoding: draft tokens that a grammar forces, that repeat the text, or that the draft model
    says. The output is the same, only more of it comes per step. `mtp` also drafts with the layer for multi-token
    prediction that checkpoints of DeepSeek V3, GLM-4.5, Qwen3-Next and Qwen3.5 have, and takes memory for it."""
    draft_folder: Path | None = None
    """Checkpoint of a small model with the same vocabulary, which drafts for this one, or of an EAGLE-3 draft head that
    was trained for it."""
    tensor_parallel_count: int = Field(default=1, ge=1, le=8)
    """Processes that share every product of the model, each with its own device or a part of the cores."""
    pipeline_parallel_count: int = Field(default=1, ge=1, le=16)
    """Stages that each have some of the layers. With `tensor_parallel_count` processes each."""
    collective_backend: Literal["auto", "nccl", "gloo"] = "auto"
    """Library by which those processes exchange tensors. `auto`: NCCL on GPUs, gloo elsewhere. With gloo, tensors of
    GPUs go through the host's memory, slowly: it is there for several processes on one GPU, which NCCL refuses."""
    rendezvous: str = ""
    """HOST:PORT at which a model's other processes join, started on any host with `python -m
    headrace.engine.parallel.follower --leader HOST:PORT`. Empty: they are started here."""
    adapters: PathsByName = Field(default={})
    """LoRA adapters as PEFT saves them that requests may choose, as NAME=FOLDER, separated by commas."""

    @model_validator(mode="before")
    @classmethod
    def _suit_device(cls, given: dict[str, Any]) -> dict[str, Any]:
        return GPU_DEFAULTS | given if str(given.get("device")).startswith("cuda") else given

    @model_validator(mode="after")
    def _check(self) -> "EngineConfig":
        if "" in self.adapters:
            raise ConfigError("adapters: an adapter has no name; write NAME=FOLDER", param="adapters")
        if self.speculation == "mtp" and self.draft_folder is not None:
            raise ConfigError(
                "speculation is 'mtp', and draft_folder names something else that drafts: choose one of them",
                param="speculation",
            )
        if self.max_step_token_count < self.block_size:
            raise ConfigError(
                f"max_step_token_count is {self.max_step_token_count}, less than a block of {self.block_size}: "
                "no prompt could ever be split; raise it",
                param="max_step_token_count",
            )
        return self
