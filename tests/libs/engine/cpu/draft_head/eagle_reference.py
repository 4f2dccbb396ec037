"""Random EAGLE-3 heads, and the same arithmetic written down plainly with torch, over a whole text at once."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

HEADS, KV_HEADS, HEAD_SIZE, INNER, DRAFT_VOCABULARY = 4, 2, 16, 96, 120
EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class EagleReference:
    """A head over states of `states_size` numbers."""

    tensors: dict[str, Tensor]
    embedding: Tensor
    layer: dict[str, Any]
    normalizes_residual: bool
    token_ids: Tensor
    """Token of each row of the head."""

    def draft(self, context: list[int], states: Tensor, count: int) -> list[int]:
        """Returns the likeliest draft tokens after a context, of which `states` [tokens - 1, 3 x hidden] are known."""
        inputs = states @ self.tensors["fc.weight"].T
        following, drafted = list(context[1:]), []
        for _ in range(count):
            outputs = self.compute(following, inputs)
            logits = self._normalized("norm", outputs[-1:]) @ self.tensors["lm_head.weight"].T
            drafted.append(int(self.token_ids[logits.argmax()]))
            following.append(drafted[-1])
            inputs = torch.cat([inputs, outputs[-1:]])
        return drafted

    def compute(self, following: list[int], inputs: Tensor) -> Tensor:
        """Returns the head's states [tokens, hidden] for tokens and the states before them."""
        embedded = self._normalized("layers.0.input_layernorm", self.embedding[following])
        normalized = self._normalized("layers.0.hidden_norm", inputs)
        both = torch.cat([embedded, normalized], dim=1)
        residual = normalized if self.normalizes_residual else inputs
        hidden = residual + self._attend(both)
        normed = self._normalized("layers.0.post_attention_layernorm", hidden)
        gate, up, down = (self.tensors[f"layers.0.mlp.{name}_proj.weight"].T for name in ("gate", "up", "down"))
        return hidden + (functional.silu(normed @ gate) * (normed @ up)) @ down

    def _normalized(self, name: str, rows: Tensor) -> Tensor:
        scaled = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + EPSILON)
        return scaled * self.tensors[f"{name}.weight"]

    def _attend(self, inputs: Tensor) -> Tensor:
        count = len(inputs)
        heads = {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
        parts = {
            name: (inputs @ self.tensors[f"layers.0.self_attn.{name}_proj.weight"].T)
            .view(1, count, number, HEAD_SIZE)
            .transpose(1, 2)
            for name, number in heads.items()
        }
        rotary = LlamaRotaryEmbedding(LlamaConfig(**self.layer))
        cosine, sine = rotary(inputs, torch.arange(count)[None])
        query, key = apply_rotary_pos_emb(parts["q"], parts["k"], cosine, sine)
        attended = functional.scaled_dot_product_attention(
            query, key, parts["v"], is_causal=True, enable_gqa=True
        ).transpose(1, 2)
        return attended.reshape(count, -1) @ self.tensors["layers.0.self_attn.o_proj.weight"].T


def make_head(
    folder: Path,
    embedding: Tensor,
    *,
    layout: str = "speculators",
    hidden_size: int = 0,
    has_embedding: bool = False,
    normalizes_residual: bool = False,
    layers: tuple[int, ...] | None = None,
    seed: int = 0,
) -> EagleReference:
    """Writes a random head for a model with this embedding [vocabulary, hidden], and returns its reference."""
    vocabulary, states_size = embedding.shape
    size = hidden_size or states_size
    torch.manual_seed(seed)
    tensors = _random_tensors(size, states_size)
    chosen = torch.randperm(vocabulary)[:DRAFT_VOCABULARY].sort().values
    own = torch.randn(vocabulary, size) * 0.5 if has_embedding or size != states_size else None
    layer = _layer_config(size, vocabulary)
    stored = tensors | {
        "d2t": chosen - torch.arange(DRAFT_VOCABULARY),
        "t2d": torch.isin(torch.arange(vocabulary), chosen),
    }
    if own is not None:
        stored["embed_tokens.weight"] = own
    config: dict[str, Any] = {"draft_vocab_size": DRAFT_VOCABULARY, "norm_before_residual": normalizes_residual}
    if layout == "speculators":
        config |= {"speculators_model_type": "eagle3", "transformer_layer_config": layer}
        config |= {"target_hidden_size": states_size, "eagle_aux_hidden_state_layer_ids": layers}
    else:
        config |= layer | {"architectures": ["LlamaForCausalLMEagle3"], "target_hidden_size": states_size}
        config |= {} if layers is None else {"eagle_config": {"eagle_aux_hidden_state_layer_ids": layers}}
        stored = {name.replace("layers.0.", "midlayer."): tensor for name, tensor in stored.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: tensor.contiguous() for name, tensor in stored.items()}, folder / "model.safetensors")
    used = embedding if own is None else own
    return EagleReference(tensors, used.float(), layer, normalizes_residual, chosen)


def _random_tensors(size: int, states_size: int) -> dict[str, Tensor]:
    width = HEADS * HEAD_SIZE
    shapes = {
        "fc": (size, 3 * states_size),
        "layers.0.self_attn.q_proj": (width, 2 * size),
        "layers.0.self_attn.k_proj": (KV_HEADS * HEAD_SIZE, 2 * size),
        "layers.0.self_attn.v_proj": (KV_HEADS * HEAD_SIZE, 2 * size),
        "layers.0.self_attn.o_proj": (size, width),
        "layers.0.mlp.gate_proj": (INNER, size),
        "layers.0.mlp.up_proj": (INNER, size),
        "layers.0.mlp.down_proj": (size, INNER),
        "lm_head": (DRAFT_VOCABULARY, size),
    }
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    tensors = {f"{name}.weight": torch.randn(shape) * 2 / shape[1] ** 0.5 for name, shape in shapes.items()}
    tensors |= {f"layers.0.{name}.weight": 1 + 0.2 * torch.randn(size) for name in norms}
    return tensors | {"norm.weight": 1 + 0.2 * torch.randn(size)}


def _layer_config(size: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": size,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_SIZE,
        "vocab_size": vocabulary,
        "max_position_embeddings": 512,
        "rms_norm_eps": EPSILON,
        "hidden_act": "silu",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }
