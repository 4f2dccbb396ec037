"""Number of KV blocks that a sequence needs at one time: all of its own, or the last ones where every layer has a
window."""

from dataclasses import dataclass

from headrace.engine.contract.engine import EngineSpec


@dataclass(frozen=True, slots=True)
class BlockNeed:
    """Counts blocks for one model."""

    block_size: int
    window: int | None
    """Tokens that a query sees at most, see `EngineSpec.window`."""
    longest_chunk: int
    """Maximum number of tokens of one sequence in one step."""

    @classmethod
    def of(cls, spec: EngineSpec) -> "BlockNeed":
        if spec.window is None:
            return cls(spec.block_size, None, spec.max_step_token_count)
        spare = spec.block_count - _ceil(spec.window - 1, spec.block_size)
        return cls(spec.block_size, spec.window, min(spec.max_step_token_count, max(1, spare) * spec.block_size))

    def count(self, token_count: int) -> int:
        """Blocks of the first `token_count` tokens."""
        return _ceil(token_count, self.block_size)

    def first_seen(self, token_count: int) -> int:
        """The first block that the token after `token_count` others can see, in any layer."""
        return 0 if self.window is None else max(0, token_count + 1 - self.window) // self.block_size

    def most(self, token_count: int, computed_count: int = 0) -> int:
        """Maximum number of blocks needed at one time while the tokens from `computed_count` to `token_count` are
        computed.

        Chunks of several tokens begin on a block boundary, so that what their first token sees is in whole blocks.
        """
        still_seen = self.count(token_count) - self.first_seen(computed_count)
        if self.window is None:
            return still_seen
        chunk = min(self.longest_chunk, token_count - computed_count)
        return min(still_seen, self.count(self.window - 1) + self.count(chunk))


def _ceil(count: int, size: int) -> int:
    return -(-count // size)
