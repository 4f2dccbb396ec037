"""Price of the accelerator's time, shared out among the requests that had it."""

from collections.abc import Mapping, Sequence

from headrace.engine.contract.request import Delta

SECONDS_PER_HOUR = 3600.0


class SharedCost:
    """Shares each step out by the tokens that it computed: a prompt's tokens count when its first token comes, so the
    steps before that wait to be shared. Everything that was spent is shared out, once."""

    def __init__(self, hourly_price: float) -> None:
        """`hourly_price`: 0 where it is not known; then everything is free."""
        self._price = hourly_price / SECONDS_PER_HOUR
        self._unshared_seconds = 0.0

    @property
    def is_known(self) -> bool:
        """Whether time has a price."""
        return self._price > 0

    def share(self, seconds: float, deltas: Sequence[Delta], prompt_counts: Mapping[str, int]) -> dict[str, float]:
        """Returns the price of a step of `seconds`, by request. `prompt_counts`: prompt tokens of the requests whose
        first delta this is."""
        self._unshared_seconds += seconds
        weights = {
            delta.request_id: len(delta.token_ids)
            + max(0, prompt_counts.get(delta.request_id, 0) - delta.cached_token_count)
            for delta in deltas
        }
        total = sum(weights.values())
        if not total:
            return {}
        price, self._unshared_seconds = self._unshared_seconds * self._price / total, 0.0
        return {name: weight * price for name, weight in weights.items()}
