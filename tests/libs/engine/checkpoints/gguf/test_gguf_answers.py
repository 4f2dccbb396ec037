"""An answer of a GGUF file ends at the mark that closes turns, though the file knows it by its text alone."""

from pathlib import Path

import pytest
from tests.libs.engine.engine_running import engine_config, finish, request, tokens
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.tiny_models import VOCAB_SIZE, make_family

from headrace.engine.contract.request import FinishReason
from headrace.engine.loading.load_text_engine import load_text_engine

NORMAL, CONTROL = 1, 3
END, MARK = 2, 150


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model")
    make_family(made, "qwen2")
    return made


def answer(folder: Path, path: Path, text: str) -> tuple[list[int], FinishReason | None]:
    """Ids of an answer that would say the mark four times, and why it ended. The file names another end."""
    vocabulary = [(f"t{index}", NORMAL) for index in range(VOCAB_SIZE)]
    vocabulary[END], vocabulary[MARK] = ("<|fim_pad|>", CONTROL), (text, CONTROL)
    engine = load_text_engine(convert(folder, path, vocabulary=vocabulary, end=END), engine_config(block_count=16))
    try:
        assert END in engine.spec.eos_token_ids
        engine.add(request("r", (5, 6, 7), temperature=0, max_tokens=4, logit_bias={MARK: 100.0}))
        stream = finish(engine)["r"]
        return tokens(stream), stream[-1].finish_reason
    finally:
        engine.close()


@pytest.mark.parametrize("text", ["<|im_end|>", "<|eot_id|>", "<end_of_turn>"])
def test_an_answer_ends_at_the_mark(folder: Path, tmp_path: Path, text: str) -> None:
    assert answer(folder, tmp_path / "m.gguf", text) == ([MARK], FinishReason.STOP)


def test_an_answer_goes_on_behind_any_other_mark(folder: Path, tmp_path: Path) -> None:
    assert answer(folder, tmp_path / "m.gguf", "<|im_start|>") == ([MARK] * 4, FinishReason.LENGTH)
