"""Tiny random causal models that score pairs by the logits of two tokens, as Qwen3-Reranker does."""

import json
from pathlib import Path
from typing import Any

import torch
from tests.libs.engine.tiny_models import make_family
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedModel

from headrace.demo_model import CHECKPOINT

MARKS = ("<|im_start|>", "<|im_end|>")
YES, NO = 300, 301
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ 'system' if m['role'] == 'query' else 'document' }}\n{{ m.content }}"
    "<|im_end|>{% endfor %}<|im_start|>assistant"
)


def make_reranker(folder: Path, *, has_modules: bool = False, **settings: Any) -> PreTrainedModel:
    """Saves a random Qwen3. `has_modules`: with sentence-transformers' files and a template of its own; otherwise with
    the key of config.json."""
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in MARKS])
    model = make_family(folder, "qwen3", vocab_size=tokenizer.get_vocab_size(), **settings)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE} if has_modules else {}))
    if has_modules:
        kinds = {"": "base.modules.transformer.Transformer", "1_LogitScore": "cross_encoder.modules.LogitScore"}
        modules = [{"path": path, "type": f"sentence_transformers.{kind}"} for path, kind in kinds.items()]
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_LogitScore").mkdir()
        (folder / "1_LogitScore" / "config.json").write_text(json.dumps({"true_token_id": YES, "false_token_id": NO}))
    else:
        file = folder / "config.json"
        texts = [tokenizer.id_to_token(each) for each in (NO, YES)]
        file.write_text(json.dumps(json.loads(file.read_text()) | {"classifier_from_token": texts}))
    return model


@torch.inference_mode()
def log_odds(model: PreTrainedModel, token_ids: list[int]) -> float:
    """Logit of yes less that of no, behind the last token."""
    logits = model(torch.tensor([token_ids])).logits[0, -1]
    return float(logits[YES] - logits[NO])
