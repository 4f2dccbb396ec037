"""Examples of bodies, by method and path, and which operations a page may try."""

from collections.abc import Mapping
from typing import Any

MODEL = "headrace-demo"
"""Model of the examples. The page puts in one that is served."""
_TALK = [{"role": "user", "content": "What is continuous batching?"}]
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "POST /v1/chat/completions": {"model": MODEL, "messages": _TALK, "max_tokens": 64},
    "POST /v1/completions": {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 32},
    "POST /v1/responses": {"model": MODEL, "input": "What is a KV cache?", "max_output_tokens": 64},
    "POST /v1/responses/input_tokens": {"model": MODEL, "input": "What is a KV cache?"},
    "POST /v1/messages": {"model": MODEL, "messages": _TALK, "max_tokens": 64},
    "POST /v1/messages/count_tokens": {"model": MODEL, "messages": _TALK},
    "POST /v1/embeddings": {"model": MODEL, "input": ["A sentence", "Another one"]},
    "POST /v1/rerank": {"model": MODEL, "query": "capital of France", "documents": ["Paris", "Ulm"], "top_n": 2},
    "POST /v1/score": {"model": MODEL, "text_1": "A sentence", "text_2": ["Another one"]},
    "POST /v1/moderations": {"input": "Is anything wrong with this text?"},
    "POST /v1/batches": {
        "input_file_id": "file-0123456789abcdef0123456789abcdef",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    },
    "POST /tokenize": {"model": MODEL, "prompt": "Text becomes tokens."},
    "POST /detokenize": {"model": MODEL, "tokens": [10, 11, 12]},
    "POST /headrace/models": {"name": "small", "source": "/models/small"},
    "PUT /headrace/aliases/{name}": {"model": MODEL},
    "POST /v1/load_lora_adapter": {"lora_name": "polite", "lora_path": "/models/polite"},
    "POST /v1/unload_lora_adapter": {"lora_name": "polite"},
    "POST /headrace/workers/{id}/drain": {"patience_seconds": 60, "force": False},
    "POST /headrace/keys": {"name": "alice", "scopes": ["generate", "embed"]},
}
_UNTRIED = frozenset(
    {
        *("POST /headrace/workers/{id}/drain", "POST /headrace/keys", "POST /headrace/models", "POST /v1/files"),
        *("POST /v1/load_lora_adapter", "POST /v1/unload_lora_adapter", "GET /metrics"),
    }
)
"""Operations that change the platform, show a secret, take a file, or answer too much for a page."""


def can_try(place: str) -> bool:
    """Whether a page may send an operation for its reader: nothing that deletes or ends something."""
    return place.startswith(("GET ", "POST ")) and place not in _UNTRIED and not place.endswith("/cancel")
