"""Measures what each precision loses against the plain model in fp32: by the rounding of weights, and of inputs too
where a worker would round them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.offline.evaluation.quality import measure
from headrace.offline.evaluation.quality_record import RecordedQuality
from headrace.offline.evaluation.served_model import ServedModel
from headrace.offline.evaluation.text import evaluation_text
from headrace.offline.evaluation.token_windows import cut_windows

REFERENCE = "float32"
SEQUENCE_LENGTH, SEQUENCE_COUNT = 256, 16


def measure_precisions(
    source: Path, precisions: Sequence[str], report: Callable[[float], None]
) -> Mapping[str, RecordedQuality]:
    """Measures each precision on the text that comes with Headrace. Calls `report` with the share that is done. Raises
    InvalidCheckpoint, Unsupported, or ConfigError."""
    windows = cut_windows(evaluation_text(), source, SEQUENCE_LENGTH, SEQUENCE_COUNT)
    length = len(windows[0])
    reference = ServedModel.load(source, length, REFERENCE)
    found = {}
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        report(done / (len(windows) * len(precisions)))

    for precision in precisions:
        model = reference if precision == REFERENCE else ServedModel.load(source, length, precision)
        found[precision] = RecordedQuality.of(precision, measure(model, windows, reference, advance))
    return found
