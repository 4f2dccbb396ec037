"""Small random adapters, saved by PEFT, and what PEFT makes of them."""

import copy
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tests.libs.engine.engine_running import finish
from tests.libs.engine.engine_running import request as plain_request
from transformers import PreTrainedModel

from headrace.engine.contract.request import EngineRequest
from headrace.engine.engines.text_engine import TextEngine


def make_adapter(folder: Path, base: PreTrainedModel, seed: int = 0, **settings: Any) -> PeftModel:
    """Saves a random adapter for `base` to `folder` and returns a copy of the model with it, in fp32."""
    torch.manual_seed(seed)
    usual: dict[str, Any] = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "init_lora_weights": False}
    with warnings.catch_warnings():
        # PEFT asks transformers for a name that it will drop.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        model = get_peft_model(copy.deepcopy(base), LoraConfig(**(usual | settings))).eval()
    model.save_pretrained(folder)
    return model


def request(request_id: str, prompt: tuple[int, ...], adapter: str, **sampling: Any) -> EngineRequest:
    return replace(plain_request(request_id, prompt, **sampling), adapter=adapter)


def prompt_logprobs(engine: TextEngine, prompt: tuple[int, ...], adapter: str) -> list[dict[int, float]]:
    """Log-probabilities of each prompt token after the first and of the 20 strongest ones beside it."""
    engine.add(request("r", prompt, adapter, max_tokens=0, prompt_logprob_count=20))
    (delta,) = finish(engine)["r"]
    assert delta.prompt_logprobs is not None
    return [dict(found.top) | {found.token_id: found.logprob} for found in delta.prompt_logprobs[1:] if found]


@torch.inference_mode()
def relative_error(model: PreTrainedModel | PeftModel, prompt: tuple[int, ...], found: list[dict[int, float]]) -> float:
    """The largest difference to what `model` says, by its largest log-probability."""
    expected = torch.log_softmax(model(input_ids=torch.tensor([prompt])).logits[0], dim=-1)
    assert len(found) == len(prompt) - 1
    worst = max(
        abs(expected[position, token_id].item() - value)
        for position, row in enumerate(found)
        for token_id, value in row.items()
    )
    return worst / expected.abs().max().item()
