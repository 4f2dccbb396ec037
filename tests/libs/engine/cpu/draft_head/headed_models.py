"""A model with a draft head, and what the head should draft for it."""

from pathlib import Path
from typing import Any

import torch
from tests.libs.engine.cpu.draft_head.eagle_reference import EagleReference
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.speculation.drafters.always_head import AlwaysHead
from tests.libs.engine.tiny_models import make_prompts, save_random
from transformers import PreTrainedModel

from headrace.engine.contract.request import EngineRequest
from headrace.engine.loading.load_text_engine import load_text_engine

LAYER_COUNT, LAYERS = 6, (2, 3, 3)
"""Layers of the model, and those that a head reads where it does not say which."""
PROMPTS = make_prompts((70, 5, 33), seed=4)


def make_target(folder: Path) -> PreTrainedModel:
    """Saves a random model to draft for, and returns it."""
    return save_random(folder, {"model_type": "llama", "num_hidden_layers": LAYER_COUNT, "num_attention_heads": 4})


def embedding_of(model: PreTrainedModel) -> torch.Tensor:
    weight: torch.Tensor = model.get_input_embeddings().weight.detach()
    return weight


def check_drafts(
    drafter: AlwaysHead, model: PreTrainedModel, reference: EagleReference, layers: tuple[int, ...] = LAYERS
) -> None:
    """Asserts that all that was drafted is what the reference drafts from the model's hidden states."""
    for context, first, drafted in drafter.seen:
        states = _states_of(model, context, layers)[first:]
        assert list(drafted) == reference.draft(context[first:], states, len(drafted)), len(context)


@torch.inference_mode()
def _states_of(model: PreTrainedModel, context: list[int], layers: tuple[int, ...]) -> torch.Tensor:
    hidden = model(torch.tensor([context[:-1]]), output_hidden_states=True).hidden_states
    return torch.cat([hidden[layer][0] for layer in layers], dim=1)


def outputs_without(folder: Path, *requests: EngineRequest, **settings: Any) -> dict[str, list[int]]:
    """Returns the outputs of an engine that drafts nothing."""
    usual: dict[str, Any] = {"exact": True, "block_count": 64, "thread_count": 1}
    engine = load_text_engine(folder, engine_config(**(usual | settings)))
    found = run(engine, *requests)
    engine.close()
    return found


def greedy(*prompts: tuple[int, ...], max_tokens: int = 24) -> list[EngineRequest]:
    return [request(str(index), prompt, max_tokens=max_tokens, temperature=0) for index, prompt in enumerate(prompts)]
