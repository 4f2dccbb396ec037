"""Tiny checkpoints that have a layer for multi-token prediction, and what transformers computes with it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.tiny_models import make_family
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

LAYER_COUNT = 3
NAMES = {
    "deepseek": ("model.layers.3", "enorm", "hnorm", "eh_proj", "shared_head.norm"),
    "qwen": ("mtp.layers.0", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"),
}
"""Names of the layer, and of the modules around it: within the layer, or whole."""


@dataclass(frozen=True, slots=True)
class MtpReference:
    model: Any
    """The model without its further layer."""
    layer: Any
    norms: tuple[Any, ...]
    """Norms of embeddings and of states, and the one behind the layer."""
    projection: Tensor

    @torch.inference_mode()
    def draft(self, context: list[int], count: int) -> list[int]:
        """Returns the likeliest draft tokens after a context."""
        inner: Any = self.model.model
        states = inner(torch.tensor([context[:-1]])).last_hidden_state
        following, drafted = list(context[1:]), []
        for _ in range(count):
            outputs = self._compute(torch.tensor([following]), states)
            drafted.append(int(self.model.lm_head(outputs[0, -1]).argmax()))
            following.append(drafted[-1])
            states = torch.cat([states, outputs[:, -1:]], dim=1)
        return drafted

    def _compute(self, following: Tensor, states: Tensor) -> Tensor:
        inner: Any = self.model.model
        embedded, normalized = self.norms[0](inner.embed_tokens(following)), self.norms[1](states)
        hidden = torch.cat([embedded, normalized], dim=-1) @ self.projection.T
        positions = torch.arange(following.shape[1])[None]
        outputs = self.layer(
            hidden, attention_mask=None, position_ids=positions, position_embeddings=inner.rotary_emb(hidden, positions)
        )
        return self.norms[2](outputs[0] if isinstance(outputs, tuple) else outputs)


def make_mtp_model(folder: Path, family: str, names: str, **settings: Any) -> MtpReference:
    """Saves a model whose checkpoint has one layer more than it runs, and returns its reference."""
    whole: Any = make_family(folder, family, num_hidden_layers=LAYER_COUNT + 1, **settings)
    size = whole.config.hidden_size
    projection = torch.randn(size, 2 * size) * 2 / (2 * size) ** 0.5
    kind = type(whole.model.norm)
    norms = tuple(kind(size, eps=whole.config.rms_norm_eps) for _ in range(3))
    for norm in norms:
        norm.requires_grad_(requires_grad=False)
        nn.init.normal_(norm.weight, mean=norm.weight.mean().item(), std=0.2)
    _rename(folder, names, projection, norms)
    _shorten(folder, names)
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return MtpReference(model, whole.model.layers[LAYER_COUNT], norms, projection)


def _rename(folder: Path, names: str, projection: Tensor, norms: tuple[Any, ...]) -> None:
    layer, *around = NAMES[names]
    last, path = f"model.layers.{LAYER_COUNT}.", folder / "model.safetensors"
    tensors = {
        f"{layer}.{name.removeprefix(last)}" if name.startswith(last) else name: tensor
        for name, tensor in load_file(path).items()
    }
    added = [norms[0].weight.detach(), norms[1].weight.detach(), projection, norms[2].weight.detach()]
    prefix = f"{layer}." if names == "deepseek" else ""
    tensors |= {f"{prefix}{name}.weight": tensor for name, tensor in zip(around, added, strict=True)}
    save_file(tensors, path, metadata={"format": "pt"})


def _shorten(folder: Path, names: str) -> None:
    """Takes the last layer out of the configuration."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["num_hidden_layers"] = LAYER_COUNT
    for listed in ("layer_types", "mlp_layer_types"):
        if listed in config:
            config[listed] = config[listed][:LAYER_COUNT]
    config["num_nextn_predict_layers"] = 1
    path.write_text(json.dumps(config))
