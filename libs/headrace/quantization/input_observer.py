"""Wraps the layers of a decoder and collects the second moments of their projections' inputs."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from headrace.engine.torch.decoder.decoder_layer import DecoderLayer, PreNormLayer, SandwichNormLayer
from headrace.engine.torch.decoder.self_attention import SelfAttention
from headrace.engine.torch.layers.expert_mlp import ExpertMlp
from headrace.engine.torch.layers.gated_mlp import GatedMlp, Mlp
from headrace.engine.torch.layers.linear import Linear
from headrace.errors.tree import InvalidCheckpoint
from headrace.quantization.gptq_solver import InputMoments

Record = Callable[[Tensor], None]
OUTPUT_PROJECTIONS = ("o_proj", "down_proj", "w2")
"""Checkpoint names of the last projection of a block. All others read the block's own input."""


@dataclass(slots=True)
class InputObserver:
    """The moments of each block's input and of its last projection's input."""

    expert_module: str = ""
    """Name of the mixtures of experts in the checkpoint."""
    _moments: dict[tuple[str, bool], InputMoments] = field(default_factory=dict)
    """Moments by (block, whether for its last projection)."""

    def moments_of(self, module: str, in_size: int) -> InputMoments:
        """Returns the moments of a module such as model.layers.0.self_attn.q_proj. Empty for an expert that was never
        chosen.

        Raises InvalidCheckpoint if the model computed values that are not finite.
        """
        block, _, projection = module.rpartition(".")
        found = self._moments.get((block, projection in OUTPUT_PROJECTIONS))
        if found is None:
            return InputMoments.empty(in_size)
        if not torch.isfinite(found.total).all():
            raise InvalidCheckpoint(f"What the model computes as the input of {module} is not finite")
        return found

    def watch(self, index: int, layer: DecoderLayer) -> DecoderLayer:
        """Returns the same layer with its inputs observed."""
        if not isinstance(layer, PreNormLayer | SandwichNormLayer):
            raise TypeError(f"cannot watch a {type(layer).__name__}")
        if not isinstance(layer.attention, SelfAttention):
            raise TypeError(f"cannot watch a {type(layer.attention).__name__}")
        name = f"model.layers.{index}"
        record_input, record_inner = self._recorders(f"{name}.self_attn")
        attention = replace(
            layer.attention,
            qkv=WatchedLinear(layer.attention.qkv, record_input),
            output=WatchedLinear(layer.attention.output, record_inner),
        )
        return replace(layer, attention=attention, mlp=self._watch_feed_forward(name, layer.mlp))

    def _watch_feed_forward(self, name: str, mlp: Mlp) -> Mlp:
        if not isinstance(mlp, ExpertMlp):
            return self._watch_mlp(f"{name}.mlp", mlp)
        block = f"{name}.{self.expert_module}.experts"
        return replace(mlp, experts=[self._watch_mlp(f"{block}.{i}", expert) for i, expert in enumerate(mlp.experts)])

    def _watch_mlp(self, block: str, mlp: Mlp) -> GatedMlp:
        record_input, record_inner = self._recorders(block)
        if not isinstance(mlp, GatedMlp):
            raise TypeError(f"cannot watch a {type(mlp).__name__}")
        gate_up, down = WatchedLinear(mlp.gate_up, record_input), WatchedLinear(mlp.down, record_inner)
        return replace(mlp, gate_up=gate_up, down=down)

    def _recorders(self, block: str) -> tuple[Record, Record]:
        def record(is_last: bool, inputs: Tensor) -> None:
            key = (block, is_last)
            if key not in self._moments:
                self._moments[key] = InputMoments.empty(inputs.shape[1])
            self._moments[key].observe(inputs)

        return (lambda inputs: record(False, inputs)), (lambda inputs: record(True, inputs))


@dataclass(frozen=True, slots=True)
class WatchedLinear:
    """A product that reports its inputs first."""

    linear: Linear
    record: Record

    def __call__(self, inputs: Tensor) -> Tensor:
        self.record(inputs)
        return self.linear(inputs)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        self.record(inputs)
        return self.linear.add_to_residual(inputs, residual)
