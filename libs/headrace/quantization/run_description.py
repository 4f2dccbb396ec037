"""Describes the inputs of a quantization run. Descriptions are equal exactly if runs would write the same bytes."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch

from headrace.quantization.quantization_settings import QuantizationSettings

SOURCE_FILES = ("config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json")


def describe_run(source: Path, settings: QuantizationSettings, text: str) -> Mapping[str, object]:
    """Describes a run by its settings, and the SHA-256 of the text and of all source files that affect the result."""
    return {
        **asdict(settings),
        "source": _digest_folder(source),
        "calibration text": "none" if settings.method == "rtn" else hashlib.sha256(text.encode()).hexdigest(),
        "torch": torch.__version__,
    }


def _digest_folder(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted({path for pattern in SOURCE_FILES for path in folder.glob(pattern) if path.is_file()}):
        with path.open("rb") as file:
            total.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()
