"""The vocabulary of a model as it is sent."""

import hashlib

from headrace.tokenizer.text.text_model import TextModel
from headrace.v1.tokenizer_pb2 import GetVocabularyResponse

FINGERPRINT_SIZE = 16


def vocabulary_of(model: TextModel) -> GetVocabularyResponse:
    """Builds the message, with its fingerprint. Takes a second for a large vocabulary; raises Unsupported."""
    pieces = model.pieces
    message = GetVocabularyResponse(
        pieces=pieces.pieces,
        special_token_ids=pieces.special_token_ids,
        strips_leading_space=pieces.strips_leading_space,
        eos_token_ids=model.eos_token_ids,
        has_chat_template=model.has_chat_template,
    )
    content = message.SerializeToString(deterministic=True)
    message.fingerprint = hashlib.blake2b(content, digest_size=FINGERPRINT_SIZE).digest()
    return message
