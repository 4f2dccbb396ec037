"""Inputs of a model for one step."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.adapters.step_adapters import StepAdapters


@dataclass(frozen=True, slots=True)
class StepTensors:
    """The tokens of one step, of all sequences one after the other."""

    token_ids: Tensor
    """int64 [tokens]."""
    logit_rows: Tensor
    """int64 [rows]: the tokens whose logits are wanted."""
    adapters: StepAdapters | None = None
    """Adapters that the tokens need. None: no token needs one."""
