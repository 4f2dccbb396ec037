"""Fit of step times to the steps that an engine ran."""

from itertools import compress

from headrace.domain.step_times import StepTimes

MEMORY = 0.99
"""Weight of the past at each step: some 100 steps count."""
UNITS = (1.0, 512.0, 16.0, 16_384.0)
"""Sizes of the terms that make their coefficients comparable: a step, a chunk of a prompt, a batch, its contexts."""
RIDGE = 1e-3
"""Share of a term's weight that holds its coefficient where it was, for terms that always grow together lately."""
MIN_STEPS = 16
"""Steps before which nothing is predicted."""
REFIT_STEPS = 8
TOLERANCE = 3.0
"""Multiple of the usual error beyond which a step counts for less: other programs make single steps much longer."""
MIN_ERROR = 0.02
"""Smallest usual error, as a share of a step's seconds."""
ERROR_MEMORY = 0.9


class StepTimeFit:
    """Fits by least squares of relative errors with exponential forgetting (recursive least squares: Ljung, System
    Identification, 1999, chapter 11) and no negative coefficient. Far misses pull no harder than near ones (Huber,
    1964). Takes a few microseconds a step."""

    def __init__(self) -> None:
        size = len(UNITS)
        self._products = [[0.0] * size for _ in range(size)]
        """Weighted sums of the products of two terms."""
        self._targets = [0.0] * size
        """Weighted sums of the products of a term and the seconds."""
        self._usual_error = 1.0
        self._step_count = 0
        self._coefficients = [0.0] * size
        self._fitted: StepTimes | None = None

    @property
    def times(self) -> StepTimes | None:
        """The fitted times. None: too few steps have been seen."""
        return self._fitted

    def observe(self, prompt_tokens: int, sequences: int, context_tokens: int, seconds: float) -> None:
        """Takes in one step, whose seconds are above zero."""
        self._step_count += 1
        weight = self._weight(prompt_tokens, sequences, context_tokens, seconds)
        terms = (1.0, prompt_tokens / UNITS[1], sequences / UNITS[2], context_tokens / UNITS[3])
        # Divided by the seconds, errors are shares of them.
        scale = weight / (seconds * seconds)
        for row, term in zip(self._products, terms, strict=True):
            for at, other in enumerate(terms):
                row[at] = MEMORY * row[at] + scale * term * other
        for at, term in enumerate(terms):
            self._targets[at] = MEMORY * self._targets[at] + scale * term * seconds
        if self._step_count >= MIN_STEPS and self._step_count % REFIT_STEPS == 0:
            self._fitted = self._fit()

    def _weight(self, prompt_tokens: int, sequences: int, context_tokens: int, seconds: float) -> float:
        if self._fitted is None:
            return 1.0
        error = abs(self._fitted.seconds(prompt_tokens, sequences, context_tokens) / seconds - 1.0)
        limit = TOLERANCE * max(self._usual_error, MIN_ERROR)
        self._usual_error = ERROR_MEMORY * self._usual_error + (1 - ERROR_MEMORY) * min(error, limit)
        return min(1.0, limit / error) if error else 1.0

    def _fit(self) -> StepTimes:
        """Solves for the coefficients, without negative ones."""
        used = [self._products[at][at] > 0.0 for at in range(len(UNITS))]
        while True:
            found = self._solve(list(compress(range(len(UNITS)), used)))
            least = min(found, key=lambda at: found[at])
            if found[least] >= 0.0:
                self._coefficients = [found.get(at, 0.0) for at in range(len(UNITS))]
                return StepTimes(*(found.get(at, 0.0) / unit for at, unit in enumerate(UNITS)))
            used[least] = False

    def _solve(self, places: list[int]) -> dict[int, float]:
        """Returns the coefficients of the terms at `places`, by Gaussian elimination: the matrix is positive
        definite."""
        rows = []
        for i in places:
            held = RIDGE * self._products[i][i]
            rows.append([self._products[i][j] + held * (i == j) for j in places])
            rows[-1].append(self._targets[i] + held * self._coefficients[i])
        for at, pivot in enumerate(rows):
            for row in rows[at + 1 :]:
                factor = row[at] / pivot[at]
                for column in range(at, len(pivot)):
                    row[column] -= factor * pivot[column]
        found: list[float] = [0.0] * len(places)
        for at in reversed(range(len(places))):
            known = sum(rows[at][later] * found[later] for later in range(at + 1, len(places)))
            found[at] = (rows[at][-1] - known) / rows[at][at]
        return dict(zip(places, found, strict=True))
