"""Families that are computed layer by layer round the inputs of quantized weights to 8 bits, unless they are exact."""

from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.checkpoints.families.oracles import prompt_logits
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import available
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.torch.operators import choose_operators

FAMILIES = ["lfm2", "qwen3_5", "mamba2", "deepseek2", "gemma4"]
PROMPTS = make_prompts((5, 70, 17))
LARGEST_SHARE = {"int4": 0.5, "int8": 2.0}
"""Distance of logits that rounding inputs to 8 bits makes, beside the one that rounding weights makes."""


def load(folder: Path, precision: str, exact: bool = False, **settings: Any) -> TextEngine:
    usual = {"precision": precision, "exact": exact, "block_count": 256, "max_step_token_count": 32}
    return load_text_engine(folder, engine_config(**(usual | settings)))


def answers(engine: TextEngine, *chosen: int) -> dict[str, list[int]]:
    return run(engine, *(request(str(i), PROMPTS[i], max_tokens=8, temperature=0.0) for i in chosen))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("precision", ["int4", "int8"])
def test_rounded_inputs_cost_little_beside_rounded_weights(tmp_path: Path, name: str, precision: str) -> None:
    make_family(tmp_path, name)
    plain, exact, rounded = (
        prompt_logits(load(tmp_path, *settings), PROMPTS[1])
        for settings in (("float32", True), (precision, True), (precision, False))
    )
    of_weights, of_inputs = float((exact - plain).norm()), float((rounded - exact).norm())
    assert 0 < of_inputs < LARGEST_SHARE[precision] * of_weights


@pytest.mark.parametrize("name", ["lfm2", "deepseek2"])
def test_batch_chunks_threads_and_instruction_set_change_no_token(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_family(tmp_path, name)
    engine = load(tmp_path, "int4", thread_count=1)
    alone = {key: tokens for i in range(len(PROMPTS)) for key, tokens in answers(engine, i).items()}
    assert answers(load(tmp_path, "int4", thread_count=2), 2, 1, 0) == alone
    for instructions in available():
        monkeypatch.setattr(choose_operators, "shared_context", lambda count, i=instructions: KernelContext(count, i))
        other = load(tmp_path, "int4", thread_count=1, max_step_token_count=256)
        assert answers(other, 0, 1, 2) == alone, instructions.name
