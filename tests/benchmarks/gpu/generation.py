"""Tokens per second of a whole model with random weights: our engine, and transformers on the same numbers."""

import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tests.benchmarks.peers.headrace_engine import run
from tests.benchmarks.peers.shapes import write_awq_checkpoint

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.planning.deployment import Deployment
from headrace.planning.device_profile import DeviceProfile
from headrace.planning.footprint import list_footprints


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that run at once."""

    batches: tuple[int, ...]
    prompt_count: int
    """Tokens of each prompt."""
    output_count: int
    """Tokens of each output."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Rates of one number of requests at once, in output tokens per second of all together."""

    batch: int
    ours: float
    theirs: float
    """Rate of transformers. 0: it did not take part."""
    predicted: float
    """Rate by the device profile. 0: there is none."""
    refusal: str = ""


def measure_generation(
    folder: Path, shape: dict[str, Any], workload: Workload, device: torch.device, profile: DeviceProfile | None
) -> list[Generation]:
    """Writes a checkpoint of a shape with weights in 4 bits, and generates greedily on `device`."""
    write_awq_checkpoint(folder, shape)
    ours = _measure_ours(folder, workload, device)
    theirs, refusal = _measure_theirs(shape, workload, device)
    context = workload.prompt_count + workload.output_count // 2
    found = []
    for batch in workload.batches:
        predicted = _predict(folder, batch, context, profile) if profile else 0.0
        found.append(Generation(batch, ours[batch], theirs.get(batch, 0.0), predicted, refusal))
    return found


def _measure_ours(folder: Path, workload: Workload, device: torch.device) -> dict[int, float]:
    """Measures each number of requests twice and keeps the second: kernels are compiled in the first."""
    most = max(workload.batches)
    config = EngineConfig.of(
        speculation="off",
        device=str(device),
        kernels="triton",
        max_running_count=most,
        block_count=most * (workload.prompt_count + workload.output_count + 16) // 16 + most,
        prefix_cache=False,
    )
    engine, rates = load_text_engine(folder, config), {}
    for batch in workload.batches:
        for _ in range(2):
            _, rates[batch] = run(engine, batch, workload.prompt_count, workload.output_count)
    engine.close()
    return rates


def _measure_theirs(shape: dict[str, Any], workload: Workload, device: torch.device) -> tuple[dict[int, float], str]:
    """Measures transformers on weights in bf16, which is what 4 bits are dequantized to."""
    if find_spec("transformers") is None:
        return {}, "transformers is not installed"
    from transformers import AutoConfig, AutoModelForCausalLM

    facts = {key: value for key, value in shape.items() if key not in ("model_type", "architectures")}
    config = AutoConfig.for_model(shape["model_type"], **facts)
    rates = {}
    with torch.inference_mode(), device:
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
        for batch in workload.batches:
            prompts = torch.randint(3, shape["vocab_size"], (batch, workload.prompt_count))
            prefill = min(_seconds(model, prompts, 1) for _ in range(2))
            whole = min(_seconds(model, prompts, workload.output_count) for _ in range(2))
            rates[batch] = batch * (workload.output_count - 1) / max(whole - prefill, 1e-9)
    return rates, ""


def _seconds(model: Any, prompts: torch.Tensor, output_count: int) -> float:
    started = time.perf_counter()
    model.generate(prompts, max_new_tokens=output_count, min_new_tokens=output_count, do_sample=False).tolist()
    return time.perf_counter() - started


def _predict(folder: Path, batch: int, context: int, profile: DeviceProfile) -> float:
    footprint = list_footprints(read_model_config(folder), "cuda")[0]
    return Deployment(footprint, profile).token_rate(batch, context) or 0.0
