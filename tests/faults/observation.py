"""Counts and times of the requests that ran while one fault acted."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path

from tests.faults.asking import HUNG, OK, Answer, Choice
from tests.faults.comparison import compare

from headrace.load_generator.percentile import percentile

PROMPT_SECONDS = 1.0
"""A probe that takes this much longer than in quiet times was held up by the fault."""
MAX_EXAMPLES = 5
SHOWN_IDS = 8


@dataclass
class Observation:
    """A row of the table."""

    fault: str
    requests: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Requests that ended with an error, by its code; those that hang are not among them."""
    hung: int = 0
    lost: int = 0
    doubled: int = 0
    unequal: int = 0
    """Answers that differ from the undisturbed run."""
    stalls: list[float] = field(default_factory=list)
    """The longest silence of every stream that ran when the fault came, in seconds."""
    recovery: float = 0.0
    """Seconds from the fault to the first of the new requests that all work; infinite when it never came."""
    leaked: Mapping[str, float] = field(default_factory=dict)
    """Metrics that did not return to zero within a minute of the last request."""
    resubmissions: int = 0
    """Sequences that were moved, as the gateway counts them."""
    examples: list[str] = field(default_factory=list)
    """Descriptions of a few answers that differ, hang or failed."""
    complaints: list[str] = field(default_factory=list)
    """Other things that went wrong, in words."""
    seconds: float = 0.0
    folder: Path | None = None
    """Folder of the platform, with its logs; gone as soon as the platform is."""

    @property
    def failed(self) -> int:
        return self.failures.total()

    @property
    def stall_p99(self) -> float | None:
        return percentile(self.stalls, 99)

    @property
    def equality(self) -> float:
        """The share of answers that say what they say undisturbed."""
        return 1 - self.unequal / self.requests if self.requests else 1.0


def observe(
    fault: str,
    answers: Sequence[Answer],
    probes: Sequence[Answer],
    undisturbed: Mapping[str, Answer],
    marks: Sequence[float],
) -> Observation:
    """Counts. `marks` are the times at which something was done to the platform, in monotonic seconds."""
    seen = Observation(fault)
    for answer in [*answers, *probes]:
        _count(answer, undisturbed[answer.question.key], seen)
    seen.stalls = [stall for answer in answers for mark in marks if (stall := _stall(answer, mark)) is not None]
    seen.recovery = recovery(probes, marks)
    return seen


def _count(answer: Answer, undisturbed: Answer, seen: Observation) -> None:
    seen.requests += 1
    if answer.outcome == HUNG:
        seen.hung += 1
    elif answer.outcome != OK:
        seen.failures[answer.outcome] += 1
    difference = compare(answer, undisturbed)
    seen.lost += difference.lost
    seen.doubled += difference.doubled
    seen.unequal += not difference.equal
    if (answer.outcome != OK or not difference.equal) and len(seen.examples) < MAX_EXAMPLES:
        seen.examples.append(_describe(answer, undisturbed))


def _describe(answer: Answer, undisturbed: Answer) -> str:
    """Says how an answer ended and where each choice leaves the undisturbed one."""
    told = [f"{answer.question.name} {answer.outcome} after {answer.seconds:.1f} s {answer.message}".strip()]
    for index, expected in undisturbed.choices.items():
        found = answer.choices.get(index, Choice())
        pairs = zip(found.token_ids, expected.token_ids, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        ids, others = found.token_ids[same:][:SHOWN_IDS], expected.token_ids[same:][:SHOWN_IDS]
        told.append(f"choice {index} after {same} ids: {ids} {found.finish_reason}, not {others}")
    return "; ".join(told)


def _stall(answer: Answer, mark: float) -> float | None:
    """The longest silence after `mark` of a stream that had begun and went on. None for any other answer."""
    times = answer.event_times if answer.outcome == OK else [*answer.event_times, answer.end]
    if len(answer.choices) != 1 or not times or not times[0] < mark < times[-1]:
        return None
    return max(later - earlier for earlier, later in pairwise(times) if later > mark)


def recovery(probes: Sequence[Answer], marks: Sequence[float]) -> float:
    """The longest time from a mark until new requests worked again, in seconds."""
    ordered = sorted(probes, key=lambda probe: probe.start)
    quiet = [probe.seconds for probe in ordered if marks and probe.end < marks[0] and probe.outcome == OK]
    limit = PROMPT_SECONDS + max(quiet, default=0.0)
    worst, recovered = 0.0, math.inf
    for begin, end in reversed(list(pairwise([*marks, math.inf]))):
        phase = [probe for probe in ordered if begin <= probe.start < end]
        if phase:
            # Where nothing works before the next thing is done, what comes after that counts.
            recovered = min(_recovered(phase, begin, limit), recovered)
            worst = max(worst, recovered - begin)
    return worst


def _recovered(phase: Sequence[Answer], begin: float, limit: float) -> float:
    """Time of the first answer from which on all probes work: `begin` if all do, infinite if the last does not."""
    good = [probe.outcome == OK and probe.seconds <= limit for probe in phase]
    if all(good):
        return begin
    first = len(good) - good[::-1].index(False)
    return phase[first].end if first < len(phase) else math.inf
