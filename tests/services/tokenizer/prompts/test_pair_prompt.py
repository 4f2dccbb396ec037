"""A pair becomes the prompt that a causal model was trained to answer, cut at the end of its document."""

from pathlib import Path

import pytest
from tests.libs.engine.tiny_rerankers import make_reranker

from headrace.domain.to_encode import TextToEncode
from headrace.errors import Unsupported
from headrace.tokenizer.prompts.pair_prompt import INSTRUCTION, PairPrompt
from headrace.tokenizer.template.chat_template import ChatTemplate
from headrace.tokenizer.text.text_model import TextModel


def prompt(model: TextModel, document: str, limit: int | None = None) -> str:
    ids = model.encode_text(TextToEncode("m", "Where is Ulm?", True, limit, pair_text=document))
    assert limit is None or len(ids) <= limit
    return model.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("has_modules", [True, False])
def test_the_document_stands_in_the_prompt_and_is_cut(has_modules: bool, tmp_path: Path) -> None:
    make_reranker(tmp_path, has_modules=has_modules)
    model = TextModel("m", tmp_path)
    if has_modules:
        before, after = "system\nWhere is Ulm?<|im_end|><|im_start|>document\n", "<|im_end|><|im_start|>assistant"
    else:
        before = (
            "system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
            'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web '
            "search query, retrieve relevant passages that answer the query\n<Query>: Where is Ulm?\n<Document>: "
        )
        after = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    whole = prompt(model, "Ulm is on the Danube.")
    assert whole == f"<|im_start|>{before}Ulm is on the Danube.{after}"
    cut = prompt(model, "Ulm is on the Danube. " * 50, 220)
    assert cut.startswith(f"<|im_start|>{before}Ulm is on the Danube. Ulm")
    assert cut.endswith(after)


ROLE = "{{ messages | selectattr('role', 'eq', 'ROLE') | map(attribute='content') | first }}"
QUERY, DOCUMENT = (ROLE.replace("ROLE", role) for role in ("query", "document"))
SYSTEM = "messages | selectattr('role', 'eq', 'system') | map(attribute='content') | first | default('What fits', true)"
PROMPT = f"<Instruct>: {{{{ FOUND }}}}\n<Query>: {QUERY}\n<Document>: {DOCUMENT}<end>"
FOUND = (
    "instruct | default('What fits')",
    "instruction | default('What fits')",
    SYSTEM,
    f"instruction | default(instruct | default({SYSTEM}, true), true)",
)
"""Places for an instruction, as SGLang's, sentence-transformers' and vLLM's templates have them."""


def told(template: str, instruction: str) -> tuple[str, str]:
    return PairPrompt(ChatTemplate(template, {}).render).around("Where is Ulm?", instruction)


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("instruction", ["Find towns", ""])
def test_an_instruction_stands_where_the_template_has_a_place_for_it(found: str, instruction: str) -> None:
    before = f"<Instruct>: {instruction or 'What fits'}\n<Query>: Where is Ulm?\n<Document>: "
    assert told(PROMPT.replace("FOUND", found), instruction) == (before, "<end>")


@pytest.mark.parametrize(
    "template",
    [
        f"{QUERY}/{DOCUMENT}",
        "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}",
        "query: {{ messages[0].content }}, document: {{ messages[1].content }}",
        "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + f"{QUERY}/{DOCUMENT}",
    ],
)
def test_an_instruction_is_refused_where_there_is_no_place_for_it(template: str) -> None:
    before, after = told(template, "")
    assert "Where is Ulm?" in before + after
    with pytest.raises(Unsupported, match="has no place for an instruction") as refused:
        told(template, "Find towns")
    assert refused.value.param == "instruct"


def test_an_instruction_stands_in_the_prompt_of_the_model_card(tmp_path: Path) -> None:
    make_reranker(tmp_path)
    model = TextModel("m", tmp_path)
    wanted = TextToEncode("m", "Where is Ulm?", pair_text="On the Danube.", instruction="Find towns")
    shown = model.decode(model.encode_text(wanted), skip_special_tokens=False)
    assert shown == prompt(model, "On the Danube.").replace(INSTRUCTION, "Find towns")
    assert shown.count("Find towns") == 1


def test_a_template_of_the_checkpoint_refuses_it(tmp_path: Path) -> None:
    make_reranker(tmp_path, has_modules=True)
    with pytest.raises(Unsupported, match="has no place for an instruction"):
        TextModel("m", tmp_path).encode_text(TextToEncode("m", "a", pair_text="b", instruction="Find towns"))
