"""Tiny random Llama checkpoints, and what transformers makes of them."""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB_SIZE = 199

SHAPES: dict[str, dict[str, object]] = {
    "grouped": {"num_attention_heads": 4, "num_key_value_heads": 2},
    "multi_head_untied": {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": False},
    "multi_query_bias": {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 24, "attention_bias": True},
    "llama3_rope": {
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "mlp_bias": True,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
}


def make_oracle(folder: Path, shape: str, seed: int = 0) -> LlamaForCausalLM:
    """Saves a random checkpoint to `folder` and returns the model, in fp32."""
    torch.manual_seed(seed)
    settings: dict[str, object] = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 100,
        "num_hidden_layers": 2,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "initializer_range": 0.2,
        "eos_token_id": None,
        "bos_token_id": None,
    }
    model = LlamaForCausalLM(LlamaConfig(**(settings | SHAPES[shape]))).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.2)
    model.save_pretrained(folder)
    return model


def make_prompts(lengths: tuple[int, ...], seed: int = 1) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [tuple(torch.randint(0, VOCAB_SIZE, (length,), generator=generator).tolist()) for length in lengths]


@torch.inference_mode()
def continue_greedily(model: LlamaForCausalLM, prompt: tuple[int, ...], count: int) -> list[int]:
    """The oracle's most likely continuation."""
    ids = torch.tensor([prompt])
    generated = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0
    )
    return generated[0, len(prompt) :].tolist()
