"""Chat templates of folders: those that transformers finds."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from headrace.demo_model import CHECKPOINT
from headrace.folder_text.template_sources import template_sources

NAMED = [{"name": "default", "template": "list"}, {"name": "tool_use", "template": "list tools"}]


@pytest.mark.parametrize(
    ("setting", "files"),
    [
        ("setting", {}),
        (NAMED, {}),
        (NAMED, {"chat_template.jinja": "file"}),
        ("setting", {"chat_template.jinja": "file", "additional_chat_templates/tool_use.jinja": "more"}),
        (None, {"chat_template.jinja": "ﬁle"}),
    ],
)
def test_templates_are_those_that_transformers_finds(
    tmp_path: Path, setting: str | list[dict[str, str]] | None, files: dict[str, str]
) -> None:
    (tmp_path / "tokenizer.json").write_bytes((CHECKPOINT / "tokenizer.json").read_bytes())
    (tmp_path / "additional_chat_templates").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"} | ({} if setting is None else {"chat_template": setting})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = AutoTokenizer.from_pretrained(tmp_path).chat_template
    assert template_sources(tmp_path) == (theirs if isinstance(theirs, dict) else {"default": theirs})


def test_the_template_of_a_processor_stands_in_where_there_is_no_other(tmp_path: Path) -> None:
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "of the processor"}))
    assert template_sources(tmp_path) == {"default": "of the processor"}
    (tmp_path / "chat_template.jinja").write_text("own")
    assert template_sources(tmp_path) == {"default": "own"}
