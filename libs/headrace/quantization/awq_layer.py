"""Quantizes one layer of a decoder by AWQ (Lin et al., 2023): folds the inputs' scales into the weights that produce
them.

Division by the scales happens in the norm's weight for projections after a norm, in the rows of v_proj for o_proj, and
in the rows of up_proj for down_proj. The layer still computes the same function, so engines need not know.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.finite_tensor import RawTensors, take_finite
from headrace.quantization.awq_search import BITS, limit, search_scales
from headrace.quantization.input_observer import OUTPUT_PROJECTIONS, InputObserver
from headrace.quantization.writer import awq_tensors

UNLIMITED = ("q_proj", "k_proj", "qkv_proj")
"""Names of projections whose weights are not clipped. Scores are products of two such outputs, so the error of each
alone is no measure. AutoAWQ does the same."""


class AwqLayer:
    """The projections of one layer, in fp32, while their inputs are scaled."""

    def __init__(
        self,
        config: DecoderConfig,
        index: int,
        names: Sequence[str],
        source: RawTensors,
        observer: InputObserver,
        group_size: int,
    ) -> None:
        """Takes the moments of the modules `names`. Raises InvalidCheckpoint naming a tensor."""
        self._config = config
        self._prefix = f"model.layers.{index}"
        self._source = source
        self._group_size = group_size
        self._weights = {name: take_finite(source, f"{name}.weight").float() for name in names}
        self._moments = {
            name: observer.moments_of(name, weight.shape[1]).mean().float() for name, weight in self._weights.items()
        }
        self._folded: dict[str, Tensor] = {}
        """Changed tensors that are not quantized, by name."""

    def quantize(self) -> dict[str, Tensor]:
        """Returns all changed tensors of the layer, by name."""
        self._scale_after_norm(f"{self._prefix}.input_layernorm", self._inputs_of(f"{self._prefix}.self_attn"))
        self._scale_after_values()
        norm = "pre_feedforward_layernorm" if self._config.post_norms else "post_attention_layernorm"
        blocks = self._feed_forward_blocks()
        after_norm = [name for block in blocks for name in self._inputs_of(block)]
        self._scale_after_norm(f"{self._prefix}.{norm}", after_norm)
        for block in blocks:
            self._scale_after_up(block)
        tensors = dict(self._folded)
        for name, weight in self._weights.items():
            is_free = name.endswith(UNLIMITED)
            chosen = weight if is_free else limit(weight, self._moments[name], self._group_size)
            tensors |= awq_tensors(name, round_to_nearest.quantize(chosen, BITS, self._group_size, symmetric=False))
        return tensors

    def _inputs_of(self, block: str) -> list[str]:
        """Returns the projections that read the block's own input."""
        names = [name for name in self._weights if name.rpartition(".")[0] == block]
        return [name for name in names if not name.endswith(OUTPUT_PROJECTIONS)]

    def _feed_forward_blocks(self) -> list[str]:
        """Lists the feed-forward blocks: one, or one per expert."""
        blocks = dict.fromkeys(name.rpartition(".")[0] for name in self._weights)
        return [block for block in blocks if not block.endswith(".self_attn")]

    def _scale_after_norm(self, norm: str, names: Sequence[str]) -> None:
        """Folds scales into a norm. It has few bits, so the scales are recomputed from its rounded weight."""
        wanted = self._search(names)
        router = self._router()
        if not norm.endswith("input_layernorm") and router is not None:
            # Powers of two, so that scaling the router's weight is exact.
            wanted = torch.exp2(wanted.log2().round())
        stored, offset = take_finite(self._source, f"{norm}.weight"), self._config.norm_offset
        before = stored.float() + offset
        folded = (before / wanted - offset).to(stored.dtype)
        after = folded.float() + offset
        is_lost = (after == 0) | ~torch.isfinite(after)
        scales = torch.where(is_lost, 1.0, before / after)
        self._folded[f"{norm}.weight"] = torch.where(is_lost, stored, folded)
        self._multiply_inputs(names, scales)
        if not norm.endswith("input_layernorm") and router is not None:
            weight = take_finite(self._source, router)
            self._folded[router] = (weight.float() * scales).to(weight.dtype)

    def _scale_after_values(self) -> None:
        """Folds the scales of o_proj into the values. Query heads that share a value head share its scales."""
        config, block = self._config, f"{self._prefix}.self_attn"
        sharing = config.head_count // config.kv_head_count

        def share(saliency: Tensor) -> Tensor:
            heads = saliency.view(config.kv_head_count, sharing, config.head_size)
            return heads.mean(dim=1, keepdim=True).expand_as(heads).flatten()

        scales = self._search([f"{block}.o_proj"], share)
        self._multiply_inputs([f"{block}.o_proj"], scales)
        per_value = scales.view(config.kv_head_count, sharing, config.head_size)[:, 0].flatten()
        self._divide_last_outputs(f"{block}.{'qkv_proj' if config.fused_qkv else 'v_proj'}", per_value)

    def _scale_after_up(self, block: str) -> None:
        experts = self._config.experts
        up, down = ("up_proj", "down_proj")
        if experts is not None and ".experts." in block:
            _, up, down = experts.projections
        elif self._config.fused_gate_up:
            up = "gate_up_proj"
        scales = self._search([f"{block}.{down}"])
        self._multiply_inputs([f"{block}.{down}"], scales)
        self._divide_last_outputs(f"{block}.{up}", scales)

    def _search(self, names: Sequence[str], share: Callable[[Tensor], Tensor] = lambda saliency: saliency) -> Tensor:
        weights, moments = [self._weights[name] for name in names], [self._moments[name] for name in names]
        return search_scales(weights, moments, self._group_size, share)

    def _router(self) -> str | None:
        """Returns the unquantized tensor that reads the same input as the experts."""
        experts = self._config.experts
        name = "" if experts is None else f"{self._prefix}.{experts.module}.gate.weight"
        return name if name in self._source else None

    def _multiply_inputs(self, names: Sequence[str], scales: Tensor) -> None:
        for name in names:
            self._weights[name] = self._weights[name] * scales
            self._moments[name] = self._moments[name] / (scales[:, None] * scales)

    def _divide_last_outputs(self, name: str, scales: Tensor) -> None:
        """Divides the last outputs of a projection: in a fused one, those of its last part."""
        first = len(self._weights[name]) - len(scales)
        self._weights[name] = torch.cat([self._weights[name][:first], self._weights[name][first:] / scales[:, None]])
        if (bias_name := f"{name}.bias") in self._source:
            bias = take_finite(self._source, bias_name)
            divided = torch.cat([bias[:first].float(), bias[first:].float() / scales])
            self._folded[bias_name] = divided.to(bias.dtype)
