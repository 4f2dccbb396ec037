"""A start ends with examples that fit its models."""

import json
from pathlib import Path

from headrace.cli.terminal.first_steps import examples
from headrace.demo_model import CHECKPOINT
from headrace.launch.platform_spec import ModelSource

URL = "http://127.0.0.1:8000"


def encoder(folder: Path, architecture: str = "BertModel") -> ModelSource:
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    return ModelSource("minilm", folder)


def test_a_model_that_makes_text() -> None:
    chat, request = examples([ModelSource("headrace-demo", CHECKPOINT)], URL, "headrace chat", needs_key=False)
    assert chat == "headrace chat"
    assert request.startswith(f"curl {URL}/v1/chat/completions ")
    assert '"model": "headrace-demo"' in request
    assert "authorization" not in request


def test_an_embedding_model_is_not_to_be_chatted_with(tmp_path: Path) -> None:
    (request,) = examples([encoder(tmp_path)], URL, "headrace chat", needs_key=True)
    assert request.startswith(f"curl {URL}/v1/embeddings ")
    assert '"input"' in request
    assert '-H "authorization: Bearer $HEADRACE_API_KEY"' in request


def test_a_model_that_scores_pairs_is_asked_for_a_ranking(tmp_path: Path) -> None:
    model = encoder(tmp_path, "BertForSequenceClassification")
    (request,) = examples([model], URL, "headrace chat", needs_key=False)
    assert request.startswith(f"curl {URL}/v1/rerank ")
    assert json.loads(request.partition(" -d ")[2].strip("'")).keys() == {"model", "query", "documents"}


def test_several_models_have_a_line_each(tmp_path: Path) -> None:
    models = [encoder(tmp_path), ModelSource("chat", CHECKPOINT)]
    chat, embedding, completion = examples(models, URL, "headrace chat", needs_key=False)
    assert chat == "headrace chat chat"
    assert "/v1/embeddings" in embedding
    assert "/v1/chat/completions" in completion


def test_a_model_without_a_chat_template_and_an_adapter_have_lines_that_work(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    models = [ModelSource("base", base), ModelSource("chat", CHECKPOINT, adapters={"tuned": tmp_path})]
    chat, completion, conversation, tuned = examples(models, URL, "headrace chat", needs_key=False)
    assert chat == "headrace chat chat"
    assert f"{URL}/v1/completions" in completion
    assert '"prompt"' in completion
    assert f"{URL}/v1/chat/completions" in conversation
    assert '"model": "tuned"' in tuned
