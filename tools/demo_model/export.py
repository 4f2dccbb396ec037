"""Writes a trained model as a Hugging Face checkpoint in bf16."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tools.demo_model.model import Llama, Shape
from tools.demo_model.tokenizer import BOS, EOS, PAD, TURN_END, write_json, write_tokenizer


def model_config(shape: Shape, tokenizer: Tokenizer) -> dict[str, object]:
    """`config.json`: the keys of today and those that older readers look for."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": tokenizer.token_to_id(BOS),
        "dtype": "bfloat16",
        "eos_token_id": [tokenizer.token_to_id(TURN_END), tokenizer.token_to_id(EOS)],
        "head_dim": shape.head_size,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.positions,
        "mlp_bias": False,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "pad_token_id": tokenizer.token_to_id(PAD),
        "pretraining_tp": 1,
        "rms_norm_eps": shape.norm_eps,
        "rope_parameters": {"rope_theta": shape.rope_theta, "rope_type": "default"},
        "rope_scaling": None,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": shape.vocabulary,
    }


def export(model: Llama, tokenizer: Tokenizer, folder: Path) -> None:
    """Weights, configuration, generation defaults and tokenizer files."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": value.detach().to(torch.bfloat16) for name, value in model.state_dict().items()}
    weights = folder / "model.safetensors"
    save_file(tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)
    config = model_config(model.shape, tokenizer)
    write_json(folder / "config.json", config)
    generation = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(folder / "generation_config.json", {**generation, "do_sample": False})
    write_tokenizer(tokenizer, folder)
