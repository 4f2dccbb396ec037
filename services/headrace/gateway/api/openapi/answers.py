"""JSON schemas of answers."""

from typing import Any

from headrace.gateway.batches.storage.batch_record import BatchStatus

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
COUNT: Json = {"type": "integer", "minimum": 0}
NUMBER: Json = {"type": "number"}
ANYTHING: Json = {}
MAYBE_TEXT: Json = {"type": ["string", "null"]}


def listed(items: Json) -> Json:
    return {"type": "array", "items": items}


def record(required: Json, optional: Json | None = None) -> Json:
    """Returns the schema of an object, which may have further properties: new ones are no breaking change."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def constant(value: str | bool) -> Json:
    return {"const": value}


USAGE = record(
    {"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT},
    {
        "prompt_tokens_details": record({"cached_tokens": COUNT}),
        "completion_tokens_details": record({"reasoning_tokens": COUNT}),
    },
)
CALL = record(
    {"id": TEXT, "type": constant("function"), "function": record({"name": TEXT, "arguments": TEXT})},
)
MESSAGE = record(
    {"role": constant("assistant"), "content": MAYBE_TEXT},
    {"refusal": MAYBE_TEXT, "reasoning": TEXT, "reasoning_content": TEXT, "tool_calls": listed(CALL)},
)
FINISH_REASON: Json = {"enum": ["stop", "length", "tool_calls", "content_filter", None]}
CHAT_COMPLETION = record(
    {
        "id": TEXT,
        "object": constant("chat.completion"),
        "created": INTEGER,
        "model": TEXT,
        "choices": listed(record({"index": COUNT, "message": MESSAGE, "finish_reason": FINISH_REASON})),
        "usage": USAGE,
    }
)
COMPLETION = record(
    {
        "id": TEXT,
        "object": constant("text_completion"),
        "created": INTEGER,
        "model": TEXT,
        "choices": listed(record({"index": COUNT, "text": TEXT, "finish_reason": FINISH_REASON})),
        "usage": USAGE,
    }
)
RESPONSE = record(
    {
        "id": TEXT,
        "object": constant("response"),
        "created_at": INTEGER,
        "status": {"enum": ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]},
        "model": TEXT,
        "output": listed(record({"id": TEXT, "type": {"enum": ["message", "function_call", "reasoning"]}})),
    },
    {"usage": {"type": ["object", "null"]}, "error": {"type": ["object", "null"]}},
)
ANTHROPIC_MESSAGE = record(
    {
        "id": TEXT,
        "type": constant("message"),
        "role": constant("assistant"),
        "model": TEXT,
        "content": listed(record({"type": {"enum": ["text", "thinking", "tool_use"]}})),
        "stop_reason": {
            "enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "model_context_window_exceeded"]
        },
        "stop_sequence": MAYBE_TEXT,
        "usage": record({"input_tokens": COUNT, "output_tokens": COUNT}),
    }
)
EMBEDDINGS = record(
    {
        "object": constant("list"),
        "data": listed(
            record({"object": constant("embedding"), "index": COUNT, "embedding": {"type": ["array", "string"]}})
        ),
        "model": TEXT,
        "usage": record({"prompt_tokens": COUNT, "total_tokens": COUNT}),
    }
)
RANKING = record(
    {
        "id": TEXT,
        "model": TEXT,
        "results": listed(record({"index": COUNT, "relevance_score": NUMBER})),
        "usage": record({"prompt_tokens": COUNT, "total_tokens": COUNT}),
    }
)
TEXT_RANKING = listed(record({"index": COUNT, "score": NUMBER}, {"text": TEXT}))
"""Answer to a ranking of `texts`, as text-embeddings-inference has it."""
MODEL = record(
    {"id": TEXT, "object": constant("model"), "created": INTEGER, "owned_by": TEXT},
    {
        "root": TEXT,
        "parent": MAYBE_TEXT,
        "max_model_len": COUNT,
        "architecture": TEXT,
        "precision": TEXT,
        "parameter_count": COUNT,
    },
)
LIST = record({"object": constant("list"), "data": listed(ANYTHING)})
MODERATION = record(
    {
        "id": TEXT,
        "model": TEXT,
        "results": listed(record({"flagged": {"type": "boolean"}, "categories": {"type": "object"}})),
    }
)
FILE = record(
    {
        "id": TEXT,
        "object": constant("file"),
        "bytes": COUNT,
        "created_at": INTEGER,
        "filename": TEXT,
        "purpose": {"enum": ["batch", "batch_output"]},
        "status": constant("processed"),
        "expires_at": INTEGER,
    }
)
BATCH = record(
    {
        "id": TEXT,
        "object": constant("batch"),
        "endpoint": TEXT,
        "input_file_id": TEXT,
        "completion_window": TEXT,
        "status": {"enum": [str(status) for status in BatchStatus]},
        "created_at": INTEGER,
        "expires_at": INTEGER,
        "request_counts": record({"total": COUNT, "completed": COUNT, "failed": COUNT}),
    },
    {"output_file_id": MAYBE_TEXT, "error_file_id": MAYBE_TEXT, "model": MAYBE_TEXT},
)
_MAYBE_FLAG = {"type": ["boolean", "null"]}
_SLO = record(
    {"ttft_target_ms": NUMBER, "tpot_target_ms": NUMBER, "met": {"type": "boolean"}},
    {"ttft_met": _MAYBE_FLAG, "tpot_met": _MAYBE_FLAG},
)
REQUEST = record(
    {"id": TEXT, "path": TEXT, "status": COUNT, "outcome": TEXT, "error": MAYBE_TEXT},
    {
        "request_id": TEXT,
        "started": NUMBER,
        "route": TEXT,
        "operation": TEXT,
        "class": TEXT,
        "tenant": TEXT,
        "model": TEXT,
        "worker": TEXT,
        "total_ms": {"type": ["number", "null"]},
        "ttft_ms": {"type": ["number", "null"]},
        "stages_ms": {"type": "object", "additionalProperties": NUMBER},
        "slo": {"anyOf": [_SLO, {"type": "null"}]},
    },
)
_FIGURES = {"type": "object", "additionalProperties": listed({"type": ["number", "null"]})}
FLEET_HISTORY = record(
    {
        "gateway": TEXT,
        "step_seconds": COUNT,
        "times": listed(NUMBER),
        "models": {"type": "object", "additionalProperties": _FIGURES},
    }
)
EVENT = record({}, {"event": TEXT, "data": ANYTHING})
ERROR = record(
    {"error": record({"message": TEXT, "type": TEXT}, {"param": MAYBE_TEXT, "code": MAYBE_TEXT})},
)
ANTHROPIC_ERROR = record({"type": constant("error"), "error": record({"type": TEXT, "message": TEXT})})
