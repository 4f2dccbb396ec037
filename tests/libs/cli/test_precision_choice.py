"""The smallest precision above the floor that fits is chosen, and every other one has a reason."""

from collections.abc import Set

import pytest

from headrace.cli.precision_choice import PrecisionCandidate, judge
from headrace.evaluation.quality_record import RecordedQuality

AGREEMENT = {"float32": 1.0, "bfloat16": 0.996, "int8": 0.998, "int4": 0.967}
QUALITIES = {name: RecordedQuality(name, 20.0, share, 100) for name, share in AGREEMENT.items()}
WEIGHTS = {"float32": 400, "bfloat16": 200, "int8": 110, "int4": 60}


def reasons(floor: float, fitting: Set[str], known: Set[str] = frozenset(AGREEMENT)) -> dict[str, str]:
    candidates = [PrecisionCandidate(name, size, int(name in fitting)) for name, size in WEIGHTS.items()]
    verdicts = judge(candidates, {name: QUALITIES[name] for name in known}, floor)
    assert [verdict.is_chosen for verdict in verdicts] == [
        verdict.reason.startswith("smallest") for verdict in verdicts
    ]
    return dict(zip(WEIGHTS, (verdict.reason for verdict in verdicts), strict=True))


@pytest.mark.parametrize(
    ("floor", "fitting", "chosen"),
    [
        (0.0, {*WEIGHTS}, "int4"),
        (0.967, {*WEIGHTS}, "int4"),
        (0.97, {*WEIGHTS}, "int8"),
        (0.999, {*WEIGHTS}, "float32"),
        (0.97, {"float32", "bfloat16"}, "bfloat16"),
        (0.97, {"int4"}, None),
        (0.5, set(), None),
    ],
)
def test_the_choice(floor: float, fitting: set[str], chosen: str | None) -> None:
    found = [name for name, reason in reasons(floor, fitting).items() if reason == "smallest that will do"]
    assert found == ([] if chosen is None else [chosen])


def test_every_other_has_its_reason() -> None:
    found = reasons(0.98, {"bfloat16", "int8", "int4"}, {"bfloat16", "int4"})
    assert found == {
        "float32": "does not fit",
        "bfloat16": "smallest that will do",
        "int8": "quality not known",
        "int4": "below 98.0%",
    }
    assert reasons(0.98, {*WEIGHTS})["bfloat16"] == "larger than needed"


def test_of_two_of_the_same_size_the_better_one_is_chosen() -> None:
    candidates = [PrecisionCandidate("bfloat16", 100, 1), PrecisionCandidate("int8", 100, 1)]
    assert [verdict.is_chosen for verdict in judge(candidates, QUALITIES, 0.9)] == [False, True]
