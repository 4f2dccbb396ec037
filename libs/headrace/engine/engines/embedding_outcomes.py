"""Outcomes that an engine for embeddings has to report, requests that went wrong included."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from headrace.engine.contract.request import Delta, FinishReason
from headrace.errors.tree import HeadraceError, InternalError


class EmbeddingOutcomes:
    """Outcomes of the requests that ended, one for each. An error that names its request is raised; the others' deltas
    wait for it."""

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._failures: deque[HeadraceError] = deque()

    def __bool__(self) -> bool:
        return bool(self._deltas or self._failures)

    @property
    def has_failures(self) -> bool:
        return bool(self._failures)

    def complete(self, request_id: str, vector: NDArray[np.float32], cached_token_count: int = 0) -> None:
        """Ends a request with its embedding [hidden], fp32, or with an InternalError where that is not finite."""
        if not np.isfinite(vector).all():
            details = {"request_id": request_id}
            message = f"The embedding of request {request_id} is not finite."
            self._failures.append(InternalError(message, stage="prefill", details=details))
            return
        self._deltas.append(
            Delta(
                request_id,
                first_index=0,
                token_ids=(),
                finish_reason=FinishReason.STOP,
                cached_token_count=cached_token_count,
                embedding=tuple(vector.tolist()),
            )
        )

    def discard(self, request_id: str) -> None:
        self._deltas = [delta for delta in self._deltas if delta.request_id != request_id]

    def take(self) -> list[Delta]:
        """Raises the oldest failure, else returns all deltas."""
        if self._failures:
            raise self._failures.popleft()
        deltas, self._deltas = self._deltas, []
        return deltas
