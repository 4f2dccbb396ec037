"""One body that arrives."""

from headrace.gateway.http.bodies.upload_budget import FREE_BYTES, UploadBudget


class Upload:
    """Share that a body has of the budget of all."""

    def __init__(self, budget: UploadBudget) -> None:
        self._budget = budget
        self._taken = 0
        self._arrived = 0

    def arrive(self, byte_count: int) -> None:
        """Counts a part. Raises Overloaded where there is no room for it."""
        self._arrived += byte_count
        added = max(0, self._arrived - FREE_BYTES) - self._taken
        self._budget.take(added)
        self._taken += added

    def end(self) -> None:
        """Forgets the body, which is whole or given up. Another may follow."""
        self._budget.give_back(self._taken)
        self._taken = self._arrived = 0

    def __enter__(self) -> "Upload":
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()
