"""Tiny random checkpoints of encoders and of decoders that make embeddings, and what transformers makes of them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tests.libs.engine.tiny_models import VOCAB_SIZE, make_family
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
MODERN_TOKENS = {f"{name}_token_id": 0 for name in ("pad", "eos", "bos", "cls", "sep")}
"""Ids within the vocabulary, which those that are usual are not."""
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert"},
    "bert_new_gelu": {"model_type": "bert", "hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "type_vocab_size": 1},
    "bert_relu": {"model_type": "bert", "hidden_act": "relu", "intermediate_size": 101},
    "roberta": {"model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1},
    "xlm_roberta": {"model_type": "xlm-roberta", "pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "mpnet": {"model_type": "mpnet", "pad_token_id": 1},
    "nomic_bert": {"model_type": "nomic_bert", "pad_token_id": 1},
    "gte": {"model_type": "gte", "pad_token_id": 1},
    "jina_embeddings_v3": {"model_type": "jina_embeddings_v3", "pad_token_id": 1},
    "modernbert": {"model_type": "modernbert", "local_attention": 40, **MODERN_TOKENS},
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
SEPARATOR = 3
"""Id of the token between the two texts of a pair."""


def make_encoder(
    folder: Path, name: str, *, with_head: bool = False, seed: int = 0, **settings: Any
) -> PreTrainedModel:
    """Saves a random encoder of NAMES to `folder` and returns it, in fp32, without its head."""
    return _make(folder, name, AutoModelForMaskedLM if with_head else AutoModel, seed, settings).base_model


def make_scorer(folder: Path, name: str, *, label_count: int = 1, **settings: Any) -> PreTrainedModel:
    """Saves a random encoder of NAMES with a classifier, and a tokenizer that gives the second text of a pair another
    segment where the family has two. Returns the model with its classifier."""
    model = _make(folder, name, AutoModelForSequenceClassification, 0, settings | {"num_labels": label_count})
    pair_tokenizer(int(getattr(model.config, "type_vocab_size", 0) > 1)).save(str(folder / "tokenizer.json"))
    return model


def pair_tokenizer(second_segment: int) -> Tokenizer:
    """A tokenizer of words w0, w1, ... with BERT's form of pairs."""
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", *(f"w{index}" for index in range(VOCAB_SIZE - 4))]
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(words[:4])
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS] $A [SEP] $B:{second_segment} [SEP]:{second_segment}",
        special_tokens=[("[CLS]", 2), ("[SEP]", SEPARATOR)],
    )
    return tokenizer


@torch.inference_mode()
def scores(model: PreTrainedModel, folder: Path, pairs: list[tuple[str, str]]) -> list[float]:
    """Outputs of a classifier by transformers, one pair at a time."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    found = []
    for pair in pairs:
        encoding = tokenizer.encode(*pair)
        inputs = {"input_ids": torch.tensor([encoding.ids]), "attention_mask": torch.tensor([encoding.attention_mask])}
        if getattr(model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = torch.tensor([encoding.type_ids])
        found.append(float(model(**inputs).logits[0, 0]))
    return found


def _make(folder: Path, name: str, kind: Any, seed: int, settings: dict[str, Any]) -> PreTrainedModel:
    torch.manual_seed(seed)
    usual = DISTILBERT if name == "distilbert" else _USUAL | ENCODERS[name]
    config = AutoConfig.for_model(**(usual | settings))
    model = kind.from_config(config).eval()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("bias") or "norm" in parameter_name.lower():
            is_gain = "norm" in parameter_name.lower() and not parameter_name.endswith("bias")
            torch.nn.init.normal_(parameter, mean=float(is_gain), std=0.2)
    model.save_pretrained(folder)
    return model


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


def add_dense(folder: Path, *layers: torch.nn.Linear, activation: str = "linear.Identity") -> None:
    """Puts dense layers between pooling and normalizing, as sentence-transformers does."""
    file = folder / "modules.json"
    modules = json.loads(file.read_text())
    for index, layer in enumerate(layers):
        name = f"{2 + index}_Dense"
        modules.insert(2 + index, {"path": name, "type": "sentence_transformers.models.Dense"})
        (folder / name).mkdir()
        shape = {"in_features": layer.in_features, "out_features": layer.out_features, "bias": layer.bias is not None}
        config = shape | {"activation_function": f"torch.nn.modules.{activation}"}
        (folder / name / "config.json").write_text(json.dumps(config))
        tensors = {f"linear.{key}": value for key, value in layer.state_dict().items()}
        save_file(tensors, folder / name / "model.safetensors")
    file.write_text(json.dumps(modules))


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
