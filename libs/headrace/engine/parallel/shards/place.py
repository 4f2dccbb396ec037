"""The place of a process in a group that shares a model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """A rank of the group: which share of every product it has, and which layers.

    The first ranks are the last stage, so that logits are computed where tokens are chosen, at rank 0.
    """

    rank: int
    tensor_count: int
    """Processes that share every product of a stage (Shoeybi et al., Megatron-LM, 2019)."""
    stage_count: int
    """Stages, each with consecutive layers (Huang et al., GPipe, 2019)."""

    @property
    def world_size(self) -> int:
        return self.tensor_count * self.stage_count

    @property
    def share(self) -> int:
        """Index of its share of every product."""
        return self.rank % self.tensor_count

    @property
    def stage(self) -> int:
        """Index of its stage, the one with the first layers first."""
        return self.stage_count - 1 - self.rank // self.tensor_count

    @property
    def begins(self) -> bool:
        return self.stage == 0

    @property
    def ends(self) -> bool:
        return self.stage == self.stage_count - 1

    @property
    def rank_before(self) -> int:
        """Rank with the same share of the stage before."""
        return self.rank + self.tensor_count

    @property
    def rank_after(self) -> int:
        """Rank with the same share of the stage after."""
        return self.rank - self.tensor_count

    @property
    def peers(self) -> range:
        """Ranks of its stage, itself included, by their shares."""
        first = self.rank - self.share
        return range(first, first + self.tensor_count)

    def layers(self, layer_count: int) -> range:
        """Returns its layers of a model with `layer_count`."""
        bounds = [layer_count * stage // self.stage_count for stage in (self.stage, self.stage + 1)]
        return range(*bounds)

    def part_of(self, size: int) -> range:
        """Returns its share of `size` rows. The shares may differ by one."""
        return range(size * self.share // self.tensor_count, size * (self.share + 1) // self.tensor_count)
