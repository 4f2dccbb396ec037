"""A model's own layer for multi-token prediction drafts what transformers computes with it, and changes no token."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.speculation.drafters.always_head import load_with_head
from tests.libs.engine.tiny_models import make_prompts
from tests.libs.engine.torch.draft_head.mtp_reference import LAYER_COUNT, make_mtp_model

from headrace.engine.loading.load_text_engine import load_text_engine

PROMPTS = make_prompts((40, 5), seed=4)
QWEN_LAYERS = ["linear_attention", "full_attention", "linear_attention", "full_attention"]
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "glm4_moe": ("deepseek", {}),
    "glm4_moe_lite": ("deepseek", {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}),
    "deepseek3": ("deepseek", {}),
    "qwen3_next": ("qwen", {"layer_types": QWEN_LAYERS}),
    "qwen3_5": ("qwen", {"layer_types": QWEN_LAYERS}),
    "qwen3_5_moe": ("qwen", {"layer_types": QWEN_LAYERS}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_layer_drafts_what_transformers_computes(family: str, tmp_path: Path) -> None:
    names, settings = FAMILIES[family]
    reference = make_mtp_model(tmp_path, family, names, **settings)
    requests = [request(str(number), prompt, max_tokens=10, temperature=0) for number, prompt in enumerate(PROMPTS)]
    plain = load_text_engine(tmp_path, engine_config(exact=True, block_count=64))
    expected = run(plain, *requests)
    engine, drafter = load_with_head(tmp_path)
    drafter.texts = expected
    assert run(engine, *requests) == expected
    assert engine.stats().accepted_token_count
    assert len(drafter.seen) > len(PROMPTS)
    for context, first, drafted in drafter.seen:
        assert first == 0
        assert list(drafted) == reference.draft(context, len(drafted))


@pytest.mark.parametrize("family", ["glm4_moe", "deepseek3"])
def test_the_reference_is_the_layer_of_transformers(family: str, tmp_path: Path) -> None:
    """The first draft token of its own implementation, which reuses no layer."""
    from transformers.cache_utils import MtpCache
    from transformers.modeling_layers import MtpModel

    reference = make_mtp_model(tmp_path, family, "deepseek")
    model: Any = reference.model
    # It finds the layer by the layer counts of published models.
    model._keys_to_ignore_on_load_unexpected = {rf"model\.layers\.{LAYER_COUNT}.*"}
    layer = MtpModel.from_pretrained(model)
    context = [*PROMPTS[0]]
    with torch.inference_mode():
        states = model.model(torch.tensor([context[:-1]])).last_hidden_state
        drafted, _, _ = layer(
            input_ids=torch.tensor([context[1:]]),
            last_hidden_states=states,
            attention_mask=None,
            position_ids=torch.arange(1, len(context))[None],
            mtp_cache=MtpCache(config=model.config.get_mtp_config()),
        )
    assert drafted[0].tolist() == reference.draft(context, 1)
