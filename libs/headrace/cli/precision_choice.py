"""Chooses, for one device, the smallest precision that is accurate enough and fits, and explains why others lose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.evaluation.quality_record import RecordedQuality

UNKNOWN_QUALITY = "quality not known"


@dataclass(frozen=True, slots=True)
class PrecisionCandidate:
    """A model in one precision on one device."""

    precision: str
    weight_bytes: int
    request_count: int
    """Full-context requests whose KV fits beside weights and workspace. 0: the model does not fit."""


@dataclass(frozen=True, slots=True)
class PrecisionVerdict:
    """Outcome for one candidate."""

    is_chosen: bool
    top1_agreement: float | None
    perplexity: float | None
    reason: str
    """Reason for the outcome, in words."""


def judge(
    candidates: Sequence[PrecisionCandidate], qualities: Mapping[str, "RecordedQuality"], floor: float
) -> list[PrecisionVerdict]:
    """Returns a verdict for each of `candidates`. Of two with the same size, the one with the higher agreement is
    chosen."""
    obstacles = [_obstacle(candidate, qualities.get(candidate.precision), floor) for candidate in candidates]
    able = [index for index, obstacle in enumerate(obstacles) if obstacle is None]

    def cost(index: int) -> tuple[int, float]:
        return candidates[index].weight_bytes, -qualities[candidates[index].precision].top1_agreement

    chosen = min(able, key=cost, default=None)
    return [
        _verdict(index == chosen, obstacle, qualities.get(candidates[index].precision))
        for index, obstacle in enumerate(obstacles)
    ]


def _obstacle(candidate: PrecisionCandidate, quality: "RecordedQuality | None", floor: float) -> str | None:
    if candidate.request_count == 0:
        return "does not fit"
    if quality is None:
        return UNKNOWN_QUALITY
    if quality.top1_agreement < floor:
        return f"below {floor:.1%}"
    return None


def _verdict(is_chosen: bool, obstacle: str | None, quality: "RecordedQuality | None") -> PrecisionVerdict:
    reason = obstacle or ("smallest that will do" if is_chosen else "larger than needed")
    if quality is None:
        return PrecisionVerdict(is_chosen, None, None, reason)
    return PrecisionVerdict(is_chosen, quality.top1_agreement, quality.perplexity, reason)
