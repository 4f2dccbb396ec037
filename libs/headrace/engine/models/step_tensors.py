"""What a model is given to compute."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.adapters.step_adapters import StepAdapters
from headrace.engine.attention.gather import AttentionGroup


@dataclass(frozen=True, slots=True)
class StepTensors:
    """The tokens of one step, of all sequences one after the other."""

    token_ids: Tensor
    """int64 [tokens]."""
    positions: Tensor
    """int64 [tokens]."""
    write_rows: Tensor
    """Where their keys and values go, see `KvCache.token_rows`."""
    groups: dict[int | None, list[AttentionGroup]]
    """How they attend, for each window that the model's layers have."""
    logit_rows: Tensor
    """int64 [rows]: the tokens whose logits are wanted."""
    adapters: StepAdapters | None = None
    """Whose adapters the tokens need. None: nobody's."""
