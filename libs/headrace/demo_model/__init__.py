"""The bundled model `headrace-demo`, and what drafts for it: a smaller model, and a draft head."""

from pathlib import Path

CHECKPOINT = Path(__file__).parent / "checkpoint"
DRAFT = Path(__file__).parent / "draft"
DRAFT_HEAD = Path(__file__).parent / "draft_head"
