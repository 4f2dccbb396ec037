"""The bundled model `headrace-demo` and its draft model: two small checkpoints in the Hugging Face layout."""

from pathlib import Path

CHECKPOINT = Path(__file__).parent / "checkpoint"
DRAFT = Path(__file__).parent / "draft"
