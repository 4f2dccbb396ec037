"""Tiny random checkpoints of encoders and of decoders that make embeddings, and what transformers makes of them."""

import json
from pathlib import Path
from typing import Any

import torch
from tests.libs.engine.tiny_models import VOCAB_SIZE, make_family
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, PreTrainedModel

POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert"},
    "bert_new_gelu": {"model_type": "bert", "hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "type_vocab_size": 1},
    "bert_relu": {"model_type": "bert", "hidden_act": "relu", "intermediate_size": 101},
    "roberta": {"model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1},
    "xlm_roberta": {"model_type": "xlm-roberta", "pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "mpnet": {"model_type": "mpnet", "pad_token_id": 1},
}
"""One or more of each family, all with three layers and four heads."""
DISTILBERT: dict[str, Any] = {
    "model_type": "distilbert",
    "vocab_size": VOCAB_SIZE,
    "dim": 64,
    "hidden_dim": 100,
    "n_layers": 3,
    "n_heads": 4,
    "max_position_embeddings": 514,
    "initializer_range": 0.2,
}
_USUAL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 100,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 514,
    "initializer_range": 0.2,
}
NAMES = (*ENCODERS, "distilbert")


def make_encoder(
    folder: Path, name: str, *, with_head: bool = False, seed: int = 0, **settings: Any
) -> PreTrainedModel:
    """Saves a random encoder of NAMES to `folder` and returns it, in fp32, without its head."""
    torch.manual_seed(seed)
    usual = DISTILBERT if name == "distilbert" else _USUAL | ENCODERS[name]
    config = AutoConfig.for_model(**(usual | settings))
    model = (AutoModelForMaskedLM if with_head else AutoModel).from_config(config).eval()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("bias") or "norm" in parameter_name.lower():
            is_gain = "norm" in parameter_name.lower() and not parameter_name.endswith("bias")
            torch.nn.init.normal_(parameter, mean=float(is_gain), std=0.2)
    model.save_pretrained(folder)
    return model.base_model


def make_decoder(
    folder: Path, *, pooling: str = "lasttoken", keeps_prefix: bool = False, **settings: Any
) -> PreTrainedModel:
    """Saves a random Qwen3 to `folder` as Qwen3-Embedding is saved, without head and prefix, and returns its body. The
    fused kernels can run it, unless `settings` give its heads another size."""
    body = make_family(folder, "qwen3", **({"head_dim": 32} | settings)).model
    if not keeps_prefix:
        body.save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen3ForCausalLM"]}))
    write_sentence_settings(folder, pooling=pooling)
    return body


def write_sentence_settings(
    folder: Path, *, pooling: str = "mean", normalizes: bool = True, max_len: int | None = None, kind: str = "Normalize"
) -> None:
    """The files that sentence-transformers writes beside a checkpoint."""
    prefix = "sentence_transformers.models."
    modules = [{"path": "", "type": f"{prefix}Transformer"}, {"path": "1_Pooling", "type": f"{prefix}Pooling"}]
    if normalizes:
        modules.append({"path": "2_Normalize", "type": prefix + kind})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    flags = {flag: name == pooling for name, flag in POOLINGS.items()}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 64, **flags}))
    if max_len is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_len}))


@torch.inference_mode()
def hidden_states(model: PreTrainedModel, prompt: tuple[int, ...]) -> torch.Tensor:
    """Hidden states by transformers: [tokens, hidden]."""
    ids = torch.tensor([prompt])
    return model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]


def pooled(hidden: torch.Tensor, pooling: str, *, normalizes: bool = True) -> torch.Tensor:
    """Embedding that sentence-transformers makes of hidden states: [hidden]."""
    vector = {
        "cls": hidden[0],
        "mean": hidden.sum(dim=0) / len(hidden),
        "max": hidden.max(dim=0).values,
        "lasttoken": hidden[-1],
    }[pooling]
    return torch.nn.functional.normalize(vector, dim=0) if normalizes else vector
