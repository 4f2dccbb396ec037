"""Inputs of a model for one step."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.adapters.step_adapters import StepAdapters


@dataclass(frozen=True, slots=True)
class StepTensors:
    """The tokens of one step, of all sequences one after the other."""

    token_ids: Tensor
    """Ids of the tokens, int64 [tokens]."""
    logit_rows: Tensor
    """Indices of the tokens whose logits are wanted, int64 [rows]."""
    adapters: StepAdapters | None = None
    """Adapters that the tokens need. None: no token needs one."""
