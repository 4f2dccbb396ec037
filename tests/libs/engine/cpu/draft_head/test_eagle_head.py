"""A head drafts what the plain arithmetic says, from the hidden states of transformers, and changes no token."""

from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.cpu.draft_head.eagle_reference import make_head
from tests.libs.engine.cpu.draft_head.headed_models import (
    LAYERS,
    PROMPTS,
    check_drafts,
    embedding_of,
    greedy,
    make_target,
    outputs_without,
)
from tests.libs.engine.engine_running import run
from tests.libs.engine.speculation.drafters.always_head import COUNT, load_with_head
from tests.libs.engine.tiny_models import make_family
from transformers import PreTrainedModel

HEADS: dict[str, dict[str, Any]] = {
    "usual layers": {},
    "own embedding": {"has_embedding": True, "normalizes_residual": True},
    "narrower": {"hidden_size": 48},
    "other layout": {"layout": "eagle", "layers": (1, 3, 5)},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PreTrainedModel]:
    folder = tmp_path_factory.mktemp("target")
    return folder, make_target(folder)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_drafts_what_the_arithmetic_says(
    name: str, target: tuple[Path, PreTrainedModel], tmp_path: Path
) -> None:
    folder, model = target
    reference = make_head(tmp_path, embedding_of(model), **HEADS[name])
    engine, drafter = load_with_head(folder, tmp_path)
    requests = greedy(*PROMPTS, max_tokens=9)
    assert run(engine, *requests) == outputs_without(folder, *requests)
    assert len(drafter.seen) > len(PROMPTS)
    assert max(len(seen.drafted) for seen in drafter.seen) == COUNT
    check_drafts(drafter, model, reference, HEADS[name].get("layers") or LAYERS)


@pytest.mark.parametrize("family", ["lfm2", "qwen3_next", "deepseek2", "gemma2", "gemma4", "gpt_oss"])
def test_heads_draft_for_every_kind_of_layer(family: str, tmp_path: Path) -> None:
    """With states, latent attention, experts, windows and a scaled embedding; fused and layer by layer."""
    model = make_family(tmp_path / "target", family)
    layers = (1, 2, 2)
    reference = make_head(tmp_path / "head", embedding_of(model), layers=layers)
    engine, drafter = load_with_head(tmp_path / "target", tmp_path / "head")
    requests = greedy(*PROMPTS, max_tokens=12)
    expected = outputs_without(tmp_path / "target", *requests)
    drafter.texts = expected
    assert run(engine, *requests) == expected
    assert engine.stats().accepted_token_count
    check_drafts(drafter, model, reference, layers)
