"""Examples for a platform that has just started, one for each of its models."""

import json
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.folder_text.template_sources import DEFAULT, template_sources
from headrace.launch.platform_spec import ModelSource

CHAT, COMPLETIONS, EMBEDDINGS, RERANK = "chat/completions", "completions", "embeddings", "rerank"
QUESTION = "What is continuous batching?"


def examples(models: Sequence[ModelSource], url: str, chat_command: str, needs_key: bool) -> list[str]:
    """Returns command lines: how to chat, where a model can, and a request to each model."""
    kinds = {name: _kind(model.folder) for model in models for name in (model.name, *model.adapters)}
    talkers = [name for name, kind in kinds.items() if kind == CHAT]
    chat = [chat_command if len(talkers) == 1 == len(kinds) else f"{chat_command} {talkers[0]}"] if talkers else []
    return chat + [_request(url, name, kind, needs_key) for name, kind in kinds.items()]


def _request(url: str, name: str, kind: str, needs_key: bool) -> str:
    contents: dict[str, dict[str, object]] = {
        EMBEDDINGS: {"input": "A headrace brings the water to the wheel."},
        RERANK: {"query": QUESTION, "documents": ["Requests join a batch that runs.", "A wheel turns in the water."]},
        CHAT: {"messages": [{"role": "user", "content": QUESTION}]},
        COMPLETIONS: {"prompt": "A headrace is"},
    }
    body = {"model": name} | contents[kind]
    path = kind
    key = ' -H "authorization: Bearer $HEADRACE_API_KEY"' if needs_key else ""
    return f"curl {url}/v1/{path} -H 'content-type: application/json'{key} -d '{json.dumps(body)}'"


def _kind(folder: Path) -> str:
    """Returns the path at which a model is asked."""
    # Only a platform that is ready wants this: other commands should not wait for the engine's modules.
    from headrace.engine.checkpoints.families.model_kind import makes_embeddings, scores_pairs

    try:
        if scores_pairs(folder):
            return RERANK
        return EMBEDDINGS if makes_embeddings(folder) else CHAT if _has_chat_template(folder) else COMPLETIONS
    except HeadraceError:
        # The worker has read it: so it must have changed since.
        return CHAT


def _has_chat_template(source: Path) -> bool:
    if source.suffix == ".gguf":
        from headrace.gguf_text.gguf_tokenizer import GgufText

        return DEFAULT in GgufText(source).chat_templates
    return DEFAULT in template_sources(source)
