"""Vocabulary of a model, from which gateways turn tokens into text."""

from dataclasses import dataclass

from headrace.tokenizer.template.template_facts import TemplateFacts
from headrace.tokenizer.text.pieces import Pieces


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A vocabulary, and facts about the text of its model."""

    pieces: Pieces
    eos_token_ids: list[int]
    has_chat_template: bool
    answer_format: TemplateFacts
    fingerprint: bytes
    """Digest of all of it."""
