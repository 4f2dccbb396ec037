"""Budget that is set aside for one request until its end."""

from collections.abc import Callable

from headrace.gateway.access.limits.key_budget import Spending


class Reservation:
    """Settles once: what was not used goes back, and so does the request's place."""

    def __init__(self, reserved: Spending, give_back: Callable[[Spending], None]) -> None:
        self._reserved = reserved
        self._give_back = give_back
        self._is_settled = False

    def settle(self, used_tokens: int, is_counted: bool) -> None:
        """Gives back what was not used. `is_counted`: whether the request itself counts."""
        if self._is_settled:
            return
        self._is_settled = True
        requests = 0 if is_counted else self._reserved.requests
        self._give_back(Spending(requests, self._reserved.tokens - used_tokens))
