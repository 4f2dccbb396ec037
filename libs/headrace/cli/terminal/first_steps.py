"""Examples for a platform that has just started, one for each of its models."""

import json
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.supervisor.model_source import ModelSource

QUESTION = "What is continuous batching?"


def examples(models: Sequence[ModelSource], url: str, chat_command: str, needs_key: bool) -> list[str]:
    """Returns command lines: how to chat, where a model can, and a request to each model."""
    kinds = {model.name: _makes_embeddings(model.folder) for model in models}
    talkers = [name for name, is_embedding in kinds.items() if not is_embedding]
    chat = [chat_command if len(talkers) == 1 == len(kinds) else f"{chat_command} {talkers[0]}"] if talkers else []
    return chat + [_request(url, name, is_embedding, needs_key) for name, is_embedding in kinds.items()]


def _request(url: str, name: str, is_embedding: bool, needs_key: bool) -> str:
    body: dict[str, object] = {"model": name}
    if is_embedding:
        body["input"] = "A headrace brings the water to the wheel."
    else:
        body["messages"] = [{"role": "user", "content": QUESTION}]
    path = "embeddings" if is_embedding else "chat/completions"
    key = ' -H "authorization: Bearer $HEADRACE_API_KEY"' if needs_key else ""
    return f"curl {url}/v1/{path} -H 'content-type: application/json'{key} -d '{json.dumps(body)}'"


def _makes_embeddings(folder: Path) -> bool:
    # Only a platform that is ready wants this: other commands should not wait for the engine's modules.
    from headrace.engine.checkpoints.families.model_kind import makes_embeddings

    try:
        return makes_embeddings(folder)
    except HeadraceError:
        # The worker has read it: so it must have changed since.
        return False
