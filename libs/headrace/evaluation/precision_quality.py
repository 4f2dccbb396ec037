"""Measures the quality that each precision loses against the unquantized fp32 model. Rounds weights, and also inputs if
a worker would."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.evaluation.quality import measure
from headrace.evaluation.quality_record import RecordedQuality
from headrace.evaluation.served_model import ServedModel
from headrace.evaluation.text import evaluation_text
from headrace.evaluation.token_windows import cut_windows

REFERENCE = "float32"
SEQUENCE_LENGTH, SEQUENCE_COUNT = 256, 16


def measure_precisions(
    source: Path, precisions: Sequence[str], report: Callable[[float], None]
) -> Mapping[str, RecordedQuality]:
    """Measures each precision on the bundled text. Calls `report` with the share done. Raises InvalidCheckpoint,
    Unsupported, or ConfigError."""
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
