"""A pair becomes the prompt that a causal model was trained to answer, cut at the end of its document."""

from pathlib import Path

import pytest
from tests.libs.engine.tiny_rerankers import make_reranker

from headrace.domain.to_encode import TextToEncode
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
