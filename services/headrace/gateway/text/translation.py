"""Messages of the tokenizer to data of the gateway."""

from headrace.gateway.text.answer_format import AnswerFormat
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.tokenizer_pb2 import GetVocabularyResponse


def to_vocabulary(message: GetVocabularyResponse) -> Vocabulary:
    """Returns the vocabulary in a tokenizer's answer."""
    return Vocabulary(
        tuple(message.pieces),
        frozenset(message.special_token_ids),
        message.strips_leading_space,
        message.has_chat_template,
        AnswerFormat(
            message.answer_format.tool_call_syntax,
            message.answer_format.reasoning_start,
            message.answer_format.reasoning_end,
        ),
        tuple(message.eos_token_ids),
    )
