"""Bound on what speculation may lose: a credit, a share of what was generated, and what it has gained before."""


class Allowance:
    """An account in tokens: the time that one token takes without speculation is the unit of losses and gains."""

    def __init__(self, credit: float, share: float, max_saved: float) -> None:
        """`credit`: loss allowed from the beginning. `share`: of each generated token, what may be lost besides.
        `max_saved`: gains that later losses may use up; what was gained beyond that stays gained."""
        self._left = credit
        self._share = share
        self._most = credit + max_saved

    def affords(self, loss: float) -> bool:
        """Whether `loss` tokens may be lost."""
        return loss <= self._left

    @property
    def left(self) -> float:
        """Tokens that may still be lost. Negative if a loss was greater than expected."""
        return self._left

    def generate(self, token_count: int) -> None:
        """Records that `token_count` tokens were generated."""
        self.gain(self._share * token_count)

    def gain(self, token_count: float) -> None:
        """Records tokens gained; negative if they were lost."""
        self._left = min(self._left + token_count, self._most)
