"""Converts between messages and what the tokenizer works on."""

import hashlib
import json
from dataclasses import replace
from typing import Any, TypeVar

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.to_encode import ConversationToEncode, TextToEncode, ToEncode
from headrace.domain.tool_call import ToolCall
from headrace.errors import InvalidRequest
from headrace.tokenizer.text.text_model import TextModel
from headrace.tokenizer.text.vocabulary import Vocabulary
from headrace.v1 import tokenizer_pb2 as pb

FINGERPRINT_SIZE = 16
J = TypeVar("J", list[Any], dict[str, Any])


def to_work(request: pb.EncodeRequest) -> ToEncode:
    """Converts a request. Special tokens are added to a text unless it says otherwise. Raises InvalidRequest."""
    limit = request.context_token_count if request.HasField("context_token_count") else None
    if request.WhichOneof("input") == "conversation":
        return ConversationToEncode(request.model, to_conversation(request.conversation), limit)
    return TextToEncode(
        model=request.model,
        text=request.text,
        add_special_tokens=request.add_special_tokens if request.HasField("add_special_tokens") else True,
        max_token_count=request.max_token_count if request.HasField("max_token_count") else None,
        context_token_count=limit,
        pair_text=request.pair_text if request.HasField("pair_text") else None,
        instruction=request.instruction,
    )


def to_conversation(message: pb.Conversation) -> Conversation:
    """Converts a conversation. Raises InvalidRequest if there are no messages, or if JSON in it cannot be read."""
    if not message.messages:
        raise InvalidRequest("messages must not be empty", param="messages")
    tools = _read_json(message.tools, list, "tools")
    if not all(isinstance(tool, dict) and isinstance(tool.get("function"), dict) for tool in tools):
        raise InvalidRequest("each tool must be an object with a function", param="tools")
    return Conversation(
        messages=tuple(_to_message(entry) for entry in message.messages),
        tools=tuple(tools),
        template_arguments=_read_json(message.template_arguments, dict, "chat_template_kwargs"),
        add_generation_prompt=message.add_generation_prompt if message.HasField("add_generation_prompt") else None,
        continue_final_message=message.continue_final_message,
        chat_template=message.chat_template,
    )


def _to_message(message: pb.ChatMessage) -> Message:
    return Message(
        role=message.role,
        content=message.content,
        name=message.name,
        tool_calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls),
        tool_call_id=message.tool_call_id,
        reasoning=message.reasoning,
    )


def _read_json(text: str, kind: type[J], param: str) -> J:
    try:
        content = json.loads(text) if text else kind()
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{param} is not valid JSON: {error}", param=param) from None
    if not isinstance(content, kind):
        raise InvalidRequest(f"{param} must be a JSON {'array' if kind is list else 'object'}", param=param)
    return content


def vocabulary_of(model: TextModel) -> Vocabulary:
    """Reads the vocabulary of a model. Takes a second for a large one; raises Unsupported."""
    vocabulary = Vocabulary(
        model.pieces, model.eos_token_ids, model.has_chat_template, model.answer_format, fingerprint=b""
    )
    content = to_response(vocabulary)
    digest = hashlib.blake2b(content.SerializeToString(deterministic=True), digest_size=FINGERPRINT_SIZE)
    return replace(vocabulary, fingerprint=digest.digest())


def to_response(vocabulary: Vocabulary) -> pb.GetVocabularyResponse:
    """Converts a vocabulary."""
    return pb.GetVocabularyResponse(
        pieces=vocabulary.pieces.pieces,
        special_token_ids=vocabulary.pieces.special_token_ids,
        strips_leading_space=vocabulary.pieces.strips_leading_space,
        eos_token_ids=vocabulary.eos_token_ids,
        has_chat_template=vocabulary.has_chat_template,
        fingerprint=vocabulary.fingerprint,
        answer_format=pb.AnswerFormat(
            tool_call_syntax=vocabulary.answer_format.tool_call_syntax,
            reasoning_start=vocabulary.answer_format.reasoning_start,
            reasoning_end=vocabulary.answer_format.reasoning_end,
        ),
    )
