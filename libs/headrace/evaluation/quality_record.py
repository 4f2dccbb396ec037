"""Quality of a model's precisions, kept in a file beside its weights so that planning need not measure it again."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.errors.tree import ConfigError
from headrace.gguf_text.gguf_parts import parts_named_like
from headrace.storage.whole_file import SHARED, write_whole

if TYPE_CHECKING:
    # Takes torch, which planning does without.
    from headrace.evaluation.quality import Quality

FILE = "headrace-quality.json"
WEIGHT_FILES = ("*.safetensors", "*.gguf")


@dataclass(frozen=True, slots=True)
class RecordedQuality:
    """Result of `headrace eval` for one precision, against a reference."""

    precision: str
    """Name of the precision, for people: float32, int8, int4 (gptq)."""
    perplexity: float
    top1_agreement: float
    """Share of tokens for which the reference has the same argmax."""
    token_count: int

    @classmethod
    def of(cls, precision: str, quality: "Quality") -> "RecordedQuality":
        """Raises ValueError for a measurement without a reference."""
        if quality.top1_agreement is None:
            raise ValueError(f"{precision} was measured without a reference")
        return cls(precision, quality.perplexity, quality.top1_agreement, quality.token_count)


def read_record(source: Path) -> Mapping[str, RecordedQuality]:
    """Reads the results by precision; empty if there is no file or if it describes other weights. Raises ConfigError
    for a malformed file."""
    path = _record_path(source)
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["weights"] != _identify(source):
            return {}
        return {row.precision: row for row in map(_read_row, content["rows"])}
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise ConfigError(f"{path} cannot be read: {error!r}; delete it, or record it again") from error


def write_record(source: Path, rows: Mapping[str, RecordedQuality]) -> Path:
    """Adds results to the record of the same weights. Returns the file's path. Raises ConfigError."""
    path = _record_path(source)
    merged = {**read_record(source), **rows}
    content = {"weights": _identify(source), "rows": [asdict(row) for row in merged.values()]}
    try:
        write_whole(path, json.dumps(content, indent=2) + "\n", mode=SHARED)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error
    return path


def _record_path(source: Path) -> Path:
    return source.with_name(f"{source.name}.{FILE}") if is_gguf(source) else source / FILE


def _read_row(raw: Mapping[str, Any]) -> RecordedQuality:
    row = RecordedQuality(
        str(raw["precision"]), float(raw["perplexity"]), float(raw["top1_agreement"]), int(raw["token_count"])
    )
    if not 0 <= row.top1_agreement <= 1 or not math.isfinite(row.perplexity):
        raise ValueError(f"{row} is no quality")
    return row


def _identify(source: Path) -> str:
    """Returns the SHA-256 of the configuration and of the weights' names and sizes: reading all takes too long."""
    weights = (
        parts_named_like(source)
        if is_gguf(source)
        else sorted(path for kind in WEIGHT_FILES for path in source.glob(kind))
    )
    total = hashlib.sha256()
    if (source / "config.json").is_file():
        total.update((source / "config.json").read_bytes())
    for path in weights:
        total.update(f"{path.name} {path.stat().st_size}\n".encode())
    return total.hexdigest()
