"""Grows the bundled checkpoints without changing what they compute, so that real text has the cost of a larger model.

Net2Net (Chen et al., 2016): widths are padded with zeros, further heads and layers add zero. Widths grow by powers of 4
and heads by powers of 2 in size, so that the factors which make up for it are exact: logits are the same but for the
order in which they are summed up.
"""

import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

COPIED = ("generation_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")
NEAR = 0.02
"""Standard deviation of the weights whose output is multiplied by zero."""


@dataclass(frozen=True, slots=True)
class GrownShape:
    """Sizes after growth, none of them smaller than before."""

    hidden_size: int
    intermediate_size: int
    layer_count: int
    head_count: int
    kv_head_count: int
    head_size: int


SHAPES: dict[str, tuple[GrownShape, GrownShape]] = {
    "75m": (GrownShape(1024, 4096, 5, 16, 8, 64), GrownShape(512, 1536, 3, 4, 2, 64)),
    "300m": (GrownShape(1024, 4096, 16, 16, 8, 128), GrownShape(512, 1536, 8, 4, 2, 128)),
    "600m": (GrownShape(1024, 5632, 24, 16, 8, 128), GrownShape(1024, 3072, 5, 16, 8, 128)),
    "310m": (GrownShape(1024, 16384, 6, 8, 4, 64), GrownShape(512, 4096, 5, 4, 2, 64)),
    "1.1b": (GrownShape(1024, 16384, 21, 8, 4, 64), GrownShape(512, 4096, 16, 4, 2, 64)),
}
"""Shapes of the model and of its draft model, about a tenth of it, by parameter count. The last two have layers like
those of Llama 3.2 1B, of which one has 6 and the other 21: few heads of keys and values beside many weights."""


def grow(source: Path, target: Path, shape: GrownShape) -> None:
    """Writes the Llama checkpoint of `source` to `target` in another shape. Raises ValueError for a shape that it
    cannot grow to exactly."""
    config = json.loads((source / "config.json").read_text())
    _check(config, shape)
    weights = load_file(source / "model.safetensors")
    target.mkdir(parents=True, exist_ok=True)
    save_file(_grown(weights, config, shape), target / "model.safetensors", metadata={"format": "pt"})
    for name in COPIED:
        shutil.copyfile(source / name, target / name)
    config |= {
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.layer_count,
        "num_attention_heads": shape.head_count,
        "num_key_value_heads": shape.kv_head_count,
        "head_dim": shape.head_size,
        # The mean of squares is over more elements, of which the further ones are zero.
        "rms_norm_eps": config["rms_norm_eps"] * config["hidden_size"] / shape.hidden_size,
    }
    (target / "config.json").write_text(json.dumps(config))


def _check(config: dict[str, int], shape: GrownShape) -> None:
    groups = config["num_attention_heads"] // config["num_key_value_heads"]
    if not math.sqrt(shape.hidden_size / config["hidden_size"]).is_integer():
        raise ValueError(f"the hidden size must grow by a square, not to {shape.hidden_size}: choose another")
    if shape.head_size % config["head_dim"] or shape.head_count != groups * shape.kv_head_count:
        raise ValueError(f"heads must grow by an integer and keep their groups of {groups}: choose other heads")


def _grown(weights: dict[str, Tensor], config: dict[str, int], shape: GrownShape) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(1)
    hidden, norm = shape.hidden_size, math.sqrt(config["hidden_size"] / shape.hidden_size)
    found = {
        "model.embed_tokens.weight": padded(weights["model.embed_tokens.weight"], config["vocab_size"], hidden),
        "model.norm.weight": padded(norm * weights["model.norm.weight"][None], 1, hidden)[0],
    }
    for layer in range(shape.layer_count):
        name = f"model.layers.{layer}."
        if layer < config["num_hidden_layers"]:
            old = {key.removeprefix(name): weight for key, weight in weights.items() if key.startswith(name)}
            found |= {name + key: weight for key, weight in _grown_layer(old, config, shape, norm).items()}
        else:
            found |= {name + key: weight for key, weight in _idle_layer(shape, random).items()}
    return {name: weight.to(torch.bfloat16).contiguous() for name, weight in found.items()}


def _grown_layer(old: dict[str, Tensor], config: dict[str, int], shape: GrownShape, norm: float) -> dict[str, Tensor]:
    hidden, inner = shape.hidden_size, shape.intermediate_size
    stretch = shape.head_size // config["head_dim"]
    queries, keys = shape.head_count * shape.head_size, shape.kv_head_count * shape.head_size
    found = {
        # Scores are divided by the root of the head size.
        "self_attn.q_proj.weight": padded(
            math.sqrt(stretch) * stretched(old["self_attn.q_proj.weight"], config["head_dim"], stretch),
            queries,
            hidden,
        ),
        "self_attn.o_proj.weight": padded(
            stretched(old["self_attn.o_proj.weight"].T, config["head_dim"], stretch).T, hidden, queries
        ),
        "mlp.gate_proj.weight": padded(old["mlp.gate_proj.weight"], inner, hidden),
        "mlp.up_proj.weight": padded(old["mlp.up_proj.weight"], inner, hidden),
        "mlp.down_proj.weight": padded(old["mlp.down_proj.weight"], hidden, inner),
    }
    for key in ("self_attn.k_proj.weight", "self_attn.v_proj.weight"):
        found[key] = padded(stretched(old[key], config["head_dim"], stretch), keys, hidden)
    for key in ("input_layernorm.weight", "post_attention_layernorm.weight"):
        found[key] = padded(norm * old[key][None], 1, hidden)[0]
    return found


def _idle_layer(shape: GrownShape, random: torch.Generator) -> dict[str, Tensor]:
    """Makes a layer that computes as much as any other and adds zero."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries, keys = shape.head_count * shape.head_size, shape.kv_head_count * shape.head_size
    sizes = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
    }
    found = {f"{key}.weight": NEAR * torch.randn(size, generator=random) for key, size in sizes.items()}
    return found | {
        "self_attn.o_proj.weight": torch.zeros(hidden, queries),
        "mlp.down_proj.weight": torch.zeros(hidden, inner),
        "input_layernorm.weight": torch.ones(hidden),
        "post_attention_layernorm.weight": torch.ones(hidden),
    }


def padded(weight: Tensor, rows: int, columns: int) -> Tensor:
    """Adds rows and columns of zeros at the end."""
    found = torch.zeros(rows, columns)
    found[: weight.shape[0], : weight.shape[1]] = weight.float()
    return found


def stretched(weight: Tensor, head_size: int, stretch: int) -> Tensor:
    """Spreads the elements of each head [heads x size, columns], so that each keeps its rotary frequency.

    Element i of either half turns by base^(-2i / size): in a head `stretch` times as large, element `stretch` x i does.
    """
    halves = weight.float().reshape(-1, head_size // 2, 1, weight.shape[1])
    spread = torch.nn.functional.pad(halves, (0, 0, 0, stretch - 1))
    return spread.reshape(-1, weight.shape[1])
