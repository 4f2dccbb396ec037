"""Token budget of a step after memory ran out in one."""

GOOD_STEPS = 64
"""Steps that must go well before the budget doubles again."""
MAX_FAILURES = 6
"""Steps in a row without enough memory after which requests are refused: smaller ones do not help."""


class StepLimit:
    """Halves with each failure, and doubles again while all goes well."""

    def __init__(self, most: int, least: int) -> None:
        self._most = most
        self._least = least
        self._good_count = 0
        self._failure_count = 0
        self._limit: int | None = None

    @property
    def token_count(self) -> int | None:
        """Maximum number of tokens of a step. None: no lower limit than usual."""
        return self._limit

    @property
    def is_hopeless(self) -> bool:
        """Whether one step after the other failed."""
        return self._failure_count > MAX_FAILURES

    def note_failure(self) -> None:
        """Halves the budget."""
        self._failure_count += 1
        self._good_count = 0
        self._limit = max(self._least, (self._limit or self._most) // 2)

    def note_success(self) -> bool:
        """Returns whether the budget changed."""
        self._failure_count = 0
        if self._limit is None:
            return False
        self._good_count += 1
        if self._good_count < GOOD_STEPS:
            return False
        self._good_count = 0
        self._limit = None if 2 * self._limit >= self._most else 2 * self._limit
        return True

    def forgive(self) -> None:
        """Forgets the failures in a row, because their requests are gone."""
        self._failure_count = 0
