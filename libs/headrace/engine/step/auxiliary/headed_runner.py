"""The Protocol of a runner whose model a draft head drafts for."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.engine.step.auxiliary.auxiliary_states import AuxiliaryStates, Floats
from headrace.engine.step.runner import Runner


class HeadedRunner(Runner, Protocol):
    def keep(self, states: AuxiliaryStates) -> None:
        """Hands the hidden states of each step on from now on, before `run` returns."""
        ...

    def embed(self, token_ids: NDArray[np.int64]) -> Floats:
        """Returns the rows fp32 [tokens, hidden] of the embedding table, unscaled. Raises Unsupported if they are in a
        format that is only read by the kernels."""
        ...

    def score(self, states: Floats) -> Floats:
        """Returns the logits [rows, vocabulary] of normalized hidden states [rows, hidden]."""
        ...
