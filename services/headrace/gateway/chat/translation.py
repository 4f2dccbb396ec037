"""Translates conversations, tools and calls of the gRPC API."""

import json
from typing import Any, Literal

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.errors import InvalidRequest
from headrace.gateway.chat.reading.call_delta import CallDelta
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_choice import agreed_use
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.v1 import inference_pb2 as pb
from headrace.v1.tokenizer_pb2 import ChatMessage

ChatRequest = pb.ChatRequest | pb.StreamChatRequest

_CHOICES: dict[int, Literal["none", "auto", "required"]] = {
    pb.TOOL_CHOICE_NONE: "none",
    pb.TOOL_CHOICE_REQUIRED: "required",
}


def to_conversation(request: ChatRequest) -> Conversation:
    """Translates the messages, and the tools that the model gets to see. Raises InvalidRequest."""
    if not request.messages:
        raise InvalidRequest("messages must not be empty", param="messages")
    is_told = request.tool_choice != pb.TOOL_CHOICE_NONE
    return Conversation(
        messages=tuple(_to_message(message) for message in request.messages),
        tools=tuple(tool.definition() for tool in to_tools(request)) if is_told else (),
        template_arguments=_read_object(request.template_arguments, "template_arguments"),
    )


def to_tools(request: ChatRequest) -> list[Tool]:
    """Translates the tools. Raises InvalidRequest."""
    return [
        Tool(given.name, given.description, _read_object(given.parameters, "tools"), given.strict)
        for given in request.tools
    ]


def to_tool_use(request: ChatRequest) -> ToolUse | None:
    """Returns the use that answers may make of tools, or None if they may not call any. Raises InvalidRequest."""
    several = request.parallel_tool_calls if request.HasField("parallel_tool_calls") else True
    names = request.allowed_tools or None
    choice = _CHOICES.get(request.tool_choice, "auto")
    return agreed_use(to_tools(request), choice, names, allows_several=several, param="allowed_tools")


def to_call_delta(delta: CallDelta) -> pb.ToolCallDelta:
    """Translates the growth of a call."""
    return pb.ToolCallDelta(index=delta.index, id=delta.call_id, name=delta.name, arguments=delta.arguments)


def _to_message(message: ChatMessage) -> Message:
    return Message(
        role=message.role,
        content=message.content,
        name=message.name,
        tool_calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls),
        tool_call_id=message.tool_call_id,
        reasoning=message.reasoning,
    )


def _read_object(text: str, param: str) -> dict[str, Any]:
    try:
        content = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{param} is not valid JSON: {error}", param=param) from None
    if not isinstance(content, dict):
        raise InvalidRequest(f"{param} must be a JSON object", param=param)
    return content
