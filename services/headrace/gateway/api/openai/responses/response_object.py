"""Objects of the Responses API."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from headrace.gateway.api.openai.response import Choice
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.responses.response_tools import FunctionName, ResponseTool
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.gateway.chat.reading.answer_block import AnswerBlock
from headrace.gateway.chat.reading.block_kind import BlockKind
from headrace.gateway.fleet.model_facts import ModelFacts

IN_PROGRESS, COMPLETED, INCOMPLETE, FAILED, CANCELLED, QUEUED = (
    "in_progress",
    "completed",
    "incomplete",
    "failed",
    "cancelled",
    "queued",
)
_PREFIXES = {BlockKind.REASONING: "rs", BlockKind.TEXT: "msg", BlockKind.CALL: "fc"}


def new_response_id() -> str:
    return f"resp_{uuid.uuid4().hex}"


def response_object(body: ResponseBody, facts: ModelFacts, response_id: str, status: str) -> Json:
    """Returns a response without output, with what the request asked for, and what its model does where it is silent.
    It has every field that OpenResponses' schema requires."""
    form = body.text.format.model_dump(by_alias=True, exclude_none=True) if body.text and body.text.format else None
    return {
        "id": response_id,
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "status": status,
        "background": bool(body.background),
        "error": None,
        "frequency_penalty": body.frequency_penalty or 0.0,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": None,
        "metadata": body.metadata or {},
        "model": body.model,
        "output": [],
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "presence_penalty": body.presence_penalty or 0.0,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": body.reasoning.effort if body.reasoning else None, "summary": None},
        "safety_identifier": body.safety_identifier,
        "service_tier": body.service_tier or "default",
        "store": body.store is not False,
        "temperature": facts.default_temperature if body.temperature is None else body.temperature,
        "text": {"format": form or {"type": "text"}},
        "tool_choice": _plain(body.tool_choice) or "auto",
        "tools": [_shown(tool) for tool in body.tools or ()],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": facts.default_top_p if body.top_p is None else body.top_p,
        "truncation": body.truncation or "disabled",
        "usage": None,
        "user": body.user,
    }


def item_id(response_id: str, block: AnswerBlock) -> str:
    """Names an output item: its response and number say which it is."""
    return f"{_PREFIXES[block.kind]}_{response_id.removeprefix('resp_')}_{block.index}"


def output_item(
    response_id: str, block: AnswerBlock, status: str, name: FunctionName, logprobs: Sequence[Json] = ()
) -> Json:
    """Returns the item of a block, with its text so far. `name`: that of the function, if the block is a call."""
    item: Json = {"id": item_id(response_id, block), "status": status}
    if block.kind is BlockKind.CALL:
        item |= {"type": "function_call", "call_id": block.call_id, "name": name.name, "arguments": block.text}
        return item | ({"namespace": name.namespace} if name.namespace else {})
    content = [content_part(block, logprobs)] if block.parts else []
    if block.kind is BlockKind.REASONING:
        return item | {"type": "reasoning", "summary": [], "content": content}
    return item | {"type": "message", "role": "assistant", "content": content}


def content_part(block: AnswerBlock, logprobs: Sequence[Json] = ()) -> Json:
    """Returns the one part of a block's content."""
    if block.kind is BlockKind.REASONING:
        return {"type": "reasoning_text", "text": block.text}
    return {"type": "output_text", "text": block.text, "annotations": [], "logprobs": list(logprobs)}


def response_usage(choice: Choice) -> Json:
    """Counts the tokens of a response."""
    return {
        "input_tokens": len(choice.prompt),
        "input_tokens_details": {"cached_tokens": choice.cached_token_count},
        "output_tokens": len(choice.token_ids),
        "output_tokens_details": {"reasoning_tokens": choice.reasoning_token_count},
        "total_tokens": len(choice.prompt) + len(choice.token_ids),
    }


def _shown(tool: ResponseTool) -> Json:
    """Returns a tool as it was given. A function has all its fields."""
    fields = tool.model_dump(exclude_none=True)
    return dict.fromkeys(("description", "parameters", "strict")) | fields if tool.type == "function" else fields


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value
