"""Translates conversations and tools of chat requests."""

from collections.abc import Sequence
from typing import Any

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.errors import InvalidRequest
from headrace.gateway.api.openai.fields import message_fields, tool_fields
from headrace.gateway.api.openai.schema import ChatBody
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_choice import agreed_use
from headrace.gateway.chat.tools.tool_use import ToolUse


def conversation_of(body: ChatBody) -> Conversation:
    """Translates the messages, and the tools that the model sees."""
    is_told = body.tool_choice != "none"
    return Conversation(
        messages=messages_of(body.messages),
        tools=tuple(tool.definition() for tool in tools_of(body.tools)) if is_told else (),
        template_arguments=_template_arguments(body),
        add_generation_prompt=body.add_generation_prompt,
        continue_final_message=bool(body.continue_final_message),
        chat_template=body.chat_template or "",
    )


def check_ending(opens_answer: bool | None, goes_on: bool | None) -> None:
    """Raises InvalidRequest where a conversation is to end in two ways."""
    if opens_answer and goes_on:
        raise InvalidRequest(
            "add_generation_prompt and continue_final_message cannot both be true", param="continue_final_message"
        )


def messages_of(messages: Sequence[message_fields.Message]) -> tuple[Message, ...]:
    """Translates messages."""
    return tuple(
        Message(
            role=given.role,
            content=given.text,
            name=given.name or "",
            tool_calls=tuple(
                ToolCall(call.id, call.function.name, call.function.arguments) for call in given.tool_calls or ()
            ),
            tool_call_id=given.tool_call_id or "",
            reasoning=given.reasoning or given.reasoning_content or "",
        )
        for given in messages
    )


def tools_of(tools: Sequence[tool_fields.FunctionTool] | None) -> list[Tool]:
    """Translates the tools of a request."""
    functions = [tool.function for tool in tools or ()]
    return [
        Tool(given.name, given.description or "", given.parameters or {}, bool(given.strict)) for given in functions
    ]


def tool_use_of(body: ChatBody) -> ToolUse | None:
    """Returns the use that answers may make of tools, or None if they may not call any. Raises InvalidRequest."""
    tools, several = tools_of(body.tools), body.parallel_tool_calls is not False
    match body.tool_choice:
        case tool_fields.NamedTool(function=function):
            return agreed_use(tools, "required", [function.name], allows_several=False)
        case tool_fields.AllowedToolsChoice(allowed_tools=allowed):
            names = [tool.function.name for tool in allowed.tools]
            return agreed_use(tools, allowed.mode, names, allows_several=several)
        case choice:
            return agreed_use(tools, choice or "auto", allows_several=several)


def _template_arguments(body: ChatBody) -> dict[str, Any]:
    effort = body.reasoning_effort
    thinking = {} if effort is None else {"enable_thinking": effort != "none", "reasoning_effort": effort}
    documents = {} if body.documents is None else {"documents": body.documents}
    return thinking | documents | (body.chat_template_kwargs or {})
