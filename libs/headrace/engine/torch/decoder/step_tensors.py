"""Inputs of a model for one step."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.adapters.step_adapters import StepAdapters
from headrace.engine.torch.device.chosen_tokens import ChosenTokens


@dataclass(frozen=True, slots=True)
class StepTensors:
    """The tokens of one step, with all sequences concatenated."""

    token_ids: Tensor
    """Ids of the tokens, int64 [tokens]."""
    logit_rows: Tensor
    """Indices of the tokens that need logits, int64 [rows]."""
    adapters: StepAdapters | None = None
    """Adapters that the tokens need, or None."""
    chosen: ChosenTokens | None = None
    """Tokens of the step before, which negative ids stand for. None: there are no such ids."""
    hidden: Tensor | None = None
    """Hidden states [tokens, hidden] of the layers before, where others computed those."""
    auxiliary: Tensor | None = None
    """Memory on the host for the hidden states [tokens, layers, hidden] that a draft head reads, or None."""
    auxiliary_layers: tuple[int, ...] = ()
    """Layers whose inputs a draft head reads."""

    def keep(self, index: int, hidden: Tensor) -> None:
        """Copies the inputs [tokens, hidden] of a layer, where a draft head reads them."""
        if self.auxiliary is not None:
            for place, layer in enumerate(self.auxiliary_layers):
                if layer == index:
                    self.auxiliary[:, place].copy_(hidden)
