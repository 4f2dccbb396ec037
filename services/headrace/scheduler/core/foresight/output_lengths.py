"""Predicts how many tokens requests put out, from the ones that ended."""

from collections import OrderedDict

from headrace.scheduler.core.foresight.length_window import LengthWindow
from headrace.scheduler.core.foresight.output_length import OutputLength

ASSUMED_TOKENS = 128.0
"""Output tokens assumed of a request before any has ended."""
WINDOW = 64
"""Newest outputs of one tenant and one size that count."""
WIDE_WINDOW = 256
"""Newest outputs of all tenants that count."""
MAX_WINDOWS = 1000
"""Windows of tenants that are kept; the ones that were not added to for longest are dropped."""
PRIOR_COUNT = 8.0
"""Outputs that the mean of a wider window counts as, beside those of the narrower one."""
MIN_COUNT = 16
"""Outputs without which a window says nothing about rare lengths."""
LOW, HIGH = 0.1, 0.9
"""Shares of outputs below the two ends of the interval."""

_Key = tuple[str, int]
"""A tenant, and the size of what its request asks for."""


class OutputLengths:
    """Lengths of one model's outputs by tenant and by what was asked for at most (`max_tokens`, in powers of two), by
    the latter alone, and of all. A mean is drawn to that of the next wider group, the more the fewer have ended."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[_Key, LengthWindow] = OrderedDict()
        self._sizes: dict[int, LengthWindow] = {}
        self._all = LengthWindow(WIDE_WINDOW)

    @property
    def mean(self) -> float:
        """Mean length of the newest outputs of all tenants."""
        return _drawn(self._all, ASSUMED_TOKENS)

    def note(self, tenant: str, max_token_count: int, token_count: int) -> None:
        """Notes that an output ended after so many tokens. One without any failed, and says nothing."""
        if token_count <= 0:
            return
        size = max_token_count.bit_length()
        self._window(tenant, size).add(token_count)
        if size not in self._sizes:
            self._sizes[size] = LengthWindow(WIDE_WINDOW)
        self._sizes[size].add(token_count)
        self._all.add(token_count)

    def expected(self, tenant: str, max_token_count: int) -> OutputLength:
        """Predicts the output of a request of a tenant that asks for so many tokens at most."""
        size, mean = max_token_count.bit_length(), self.mean
        spread = self._all
        for window in (self._sizes.get(size), self._tenants.get((tenant, size))):
            if window is not None:
                mean = _drawn(window, mean)
                spread = window if len(window) >= MIN_COUNT else spread
        most = float(max_token_count)
        if len(spread) < MIN_COUNT:
            return OutputLength(min(most, mean), min(most, 1.0), most)
        return OutputLength(min(most, mean), min(most, spread.quantile(LOW)), min(most, spread.quantile(HIGH)))

    def _window(self, tenant: str, size: int) -> LengthWindow:
        key = (tenant, size)
        window = self._tenants.get(key)
        if window is None:
            window = self._tenants[key] = LengthWindow(WINDOW)
        self._tenants.move_to_end(key)
        while len(self._tenants) > MAX_WINDOWS:
            self._tenants.popitem(last=False)
        return window


def _drawn(window: LengthWindow, wider_mean: float) -> float:
    """Returns the mean of a window, drawn to that of a wider one."""
    count = len(window)
    return (count * window.mean + PRIOR_COUNT * wider_mean) / (count + PRIOR_COUNT)
