"""Models by their shape. Speed does not depend on what the weights are, so they are random."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

Tensors = dict[str, torch.Tensor]

AWQ_GROUPS = (128, 64, 32)
"""Inputs that share a scale: the largest that divides all matrices."""
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SHAPES: dict[str, dict[str, Any]] = {
    "tinyllama-1.1b": LLAMA
    | {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    },
    "llama-3.2-1b": LLAMA
    | {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "llama-3.1-8b": LLAMA
    | {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
    },
    "llama-3.3-70b": LLAMA
    | {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
    },
    "smollm2-135m": LLAMA
    | {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "qwen3-0.6b": LLAMA
    | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": True,
    },
}


def read_shape(name: str) -> dict[str, Any]:
    """The config of a shape in the list above, or of a config.json."""
    if name in SHAPES:
        return SHAPES[name]
    return dict(json.loads(Path(name).read_text(encoding="utf-8")))


def projection_sizes(config: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """[out, in] of the matrices of one layer."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    query, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    sizes = {"self_attn.q_proj": (query, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden)}
    sizes |= {"self_attn.o_proj": (hidden, query), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden)}
    return sizes | {"mlp.down_proj": (hidden, inner)}


def write_checkpoint(folder: Path, config: dict[str, Any]) -> None:
    """A checkpoint of that shape in bf16, one shard per layer."""
    _write(folder, config, lambda name, size: {f"{name}.weight": _random(*size)})


def write_awq_checkpoint(folder: Path, config: dict[str, Any]) -> None:
    """Writes a checkpoint with the matrices of the layers in 4 bits, as AutoAWQ writes them."""
    group = next(each for each in AWQ_GROUPS if all(size % each == 0 for _, size in projection_sizes(config).values()))

    def codes(*shape: int) -> torch.Tensor:
        return torch.randint(-(1 << 31), 1 << 31, shape, dtype=torch.int64).to(torch.int32)

    def projection(name: str, size: tuple[int, int]) -> dict[str, torch.Tensor]:
        out_size, in_size = size
        scales = (torch.rand(in_size // group, out_size) * 0.005 + 0.001).half()
        packed = {"qweight": codes(in_size, out_size // 8), "qzeros": codes(in_size // group, out_size // 8)}
        return {f"{name}.{part}": tensor for part, tensor in (packed | {"scales": scales}).items()}

    facts = {"quant_method": "awq", "version": "gemm", "bits": 4, "group_size": group, "zero_point": True}
    _write(folder, config | {"quantization_config": facts}, projection)


def _random(*shape: int) -> torch.Tensor:
    # A card draws the half a billion numbers of a large vocabulary at once; a CPU takes many seconds.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return (torch.randn(*shape, device=device) * 0.02).bfloat16().cpu()


def _write(folder: Path, config: dict[str, Any], projection: Callable[[str, tuple[int, int]], Tensors]) -> None:
    """`projection` makes the tensors of a matrix from its name and [out, in]."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = config["hidden_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    weight_map: dict[str, str] = {}

    def save(name: str, tensors: Tensors) -> None:
        save_file(tensors, folder / name)
        weight_map.update(dict.fromkeys(tensors, name))

    for index in range(config["num_hidden_layers"]):
        prefix, tensors = f"model.layers.{index}", Tensors()
        for name, size in projection_sizes(config).items():
            tensors |= projection(f"{prefix}.{name}", size)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}.{norm}.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
        if "Qwen3" in config["architectures"][0]:
            tensors |= {f"{prefix}.self_attn.{x}_norm.weight": torch.ones(head).bfloat16() for x in "qk"}
        save(f"layer-{index}.safetensors", tensors)
    top = {"model.embed_tokens.weight": _random(config["vocab_size"], hidden)}
    top["model.norm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    if not config.get("tie_word_embeddings"):
        top["lm_head.weight"] = _random(config["vocab_size"], hidden)
    save("top.safetensors", top)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
