"""Converts between messages and what the tokenizer works on."""

import hashlib
from dataclasses import dataclass

from headrace.errors import InvalidRequest
from headrace.tokenizer.text.text_model import TextModel
from headrace.tokenizer.text.vocabulary import Vocabulary
from headrace.v1 import tokenizer_pb2 as pb

FINGERPRINT_SIZE = 16


@dataclass(frozen=True, slots=True)
class TextToEncode:
    """A text, and how it is to be encoded."""

    text: str
    add_special_tokens: bool
    max_token_count: int | None


def to_text(request: pb.EncodeRequest) -> TextToEncode:
    """Converts a request to encode a text. Special tokens are added unless it says otherwise."""
    return TextToEncode(
        text=request.text,
        add_special_tokens=request.add_special_tokens if request.HasField("add_special_tokens") else True,
        max_token_count=request.max_token_count if request.HasField("max_token_count") else None,
    )


def to_context_token_count(request: pb.EncodeRequest) -> int | None:
    """Returns the tokens that the context holds; None where the request does not say."""
    return request.context_token_count if request.HasField("context_token_count") else None


def to_messages(conversation: pb.Conversation) -> list[dict[str, str]]:
    """Converts the messages of a conversation to what chat templates read. Raises InvalidRequest if there are none."""
    if not conversation.messages:
        raise InvalidRequest("messages must not be empty", param="messages")
    return [
        {"role": message.role, "content": message.content} | ({"name": message.name} if message.name else {})
        for message in conversation.messages
    ]


def opens_answer(conversation: pb.Conversation) -> bool:
    """Whether the text is to end where the model's answer begins. It is, unless the request says otherwise."""
    return conversation.add_generation_prompt if conversation.HasField("add_generation_prompt") else True


def vocabulary_of(model: TextModel) -> Vocabulary:
    """Reads the vocabulary of a model. Takes a second for a large one; raises Unsupported."""
    pieces, eos_token_ids, has_chat_template = model.pieces, model.eos_token_ids, model.has_chat_template
    content = to_response(Vocabulary(pieces, eos_token_ids, has_chat_template, fingerprint=b""))
    digest = hashlib.blake2b(content.SerializeToString(deterministic=True), digest_size=FINGERPRINT_SIZE)
    return Vocabulary(pieces, eos_token_ids, has_chat_template, digest.digest())


def to_response(vocabulary: Vocabulary) -> pb.GetVocabularyResponse:
    """Converts a vocabulary."""
    return pb.GetVocabularyResponse(
        pieces=vocabulary.pieces.pieces,
        special_token_ids=vocabulary.pieces.special_token_ids,
        strips_leading_space=vocabulary.pieces.strips_leading_space,
        eos_token_ids=vocabulary.eos_token_ids,
        has_chat_template=vocabulary.has_chat_template,
        fingerprint=vocabulary.fingerprint,
    )
