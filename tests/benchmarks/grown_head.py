"""Grows the bundled draft head with the bundled model, so that it drafts the same at the cost of a larger one."""

import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tests.benchmarks.grown_model import GrownShape, padded, stretched
from torch import Tensor

LAYER = "layers.0."


def grow_head(source: Path, target: Path, shape: GrownShape) -> None:
    """Writes the EAGLE-3 head of `source` to `target`, for a model that was grown to the same shape."""
    config = json.loads((source / "config.json").read_text())
    layer = config["transformer_layer_config"]
    weights = load_file(source / "model.safetensors")
    target.mkdir(parents=True, exist_ok=True)
    save_file(_grown(weights, layer, shape), target / "model.safetensors", metadata={"format": "pt"})
    config["target_hidden_size"] = shape.hidden_size
    config["transformer_layer_config"] = layer | {
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_attention_heads": shape.head_count,
        "num_key_value_heads": shape.kv_head_count,
        "head_dim": shape.head_size,
        "rms_norm_eps": layer["rms_norm_eps"] * layer["hidden_size"] / shape.hidden_size,
    }
    (target / "config.json").write_text(json.dumps(config))


def _grown(weights: dict[str, Tensor], layer: dict[str, int], shape: GrownShape) -> dict[str, Tensor]:
    hidden, inner, old = shape.hidden_size, shape.intermediate_size, layer["hidden_size"]
    heads = (layer["head_dim"], shape.head_size // layer["head_dim"])
    queries, keys = shape.head_count * shape.head_size, shape.kv_head_count * shape.head_size
    norm = math.sqrt(old / hidden)
    found = {
        "fc.weight": _in_parts(weights["fc.weight"], hidden, old, hidden),
        "lm_head.weight": padded(weights["lm_head.weight"], len(weights["lm_head.weight"]), hidden),
        LAYER + "self_attn.o_proj.weight": padded(
            stretched(weights[LAYER + "self_attn.o_proj.weight"].T, *heads).T, hidden, queries
        ),
        LAYER + "mlp.gate_proj.weight": padded(weights[LAYER + "mlp.gate_proj.weight"], inner, hidden),
        LAYER + "mlp.up_proj.weight": padded(weights[LAYER + "mlp.up_proj.weight"], inner, hidden),
        LAYER + "mlp.down_proj.weight": padded(weights[LAYER + "mlp.down_proj.weight"], hidden, inner),
    }
    for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
        # Scores are divided by the root of the head size.
        factor = math.sqrt(heads[1]) if name == "q_proj" else 1.0
        weight = factor * stretched(weights[f"{LAYER}self_attn.{name}.weight"], *heads)
        found[f"{LAYER}self_attn.{name}.weight"] = _in_parts(weight, rows, old, hidden)
    for name in ("norm", *(LAYER + each for each in ("input_layernorm", "hidden_norm", "post_attention_layernorm"))):
        found[f"{name}.weight"] = padded(norm * weights[f"{name}.weight"][None], 1, hidden)[0]
    grown = {name: weight.to(torch.bfloat16).contiguous() for name, weight in found.items()}
    return grown | {"d2t": weights["d2t"]}


def _in_parts(weight: Tensor, rows: int, old: int, size: int) -> Tensor:
    """Adds rows of zeros, and columns behind each `old` ones: inputs are several vectors, one behind the other."""
    return torch.cat([padded(part, rows, size) for part in weight.split(old, dim=1)], dim=1)
