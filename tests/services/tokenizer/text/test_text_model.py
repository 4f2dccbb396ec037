"""The text side of the bundled model, and of folders that are not right."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from headrace.demo_model import CHECKPOINT
from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.to_encode import TextToEncode
from headrace.errors import InvalidCheckpoint, InvalidRequest, Unsupported
from headrace.tokenizer.text.pieces import pieces_of
from headrace.tokenizer.text.text_model import TextModel


@pytest.fixture(scope="module")
def model() -> TextModel:
    return TextModel("headrace-demo", CHECKPOINT)


@pytest.mark.parametrize(
    "text", ["What is TTFT?", "Ünïcödé 日本語 🙂", "tabs\tand\nlines", " leading", "a  b", "\x00\x7f"]
)
def test_pieces_put_together_are_the_text(model: TextModel, text: str) -> None:
    pieces = model.pieces
    ids = model.encode(text, add_special_tokens=False)
    assert b"".join(pieces.pieces[token] for token in ids).decode() == text


def test_every_byte_can_be_encoded(model: TextModel) -> None:
    single = {piece for piece in model.pieces.pieces if len(piece) == 1}
    assert len(single) == 256


def test_rendering_opens_the_answer_unless_told_otherwise(model: TextModel) -> None:
    messages = (Message("user", "Hello"),)
    with_prompt, without = (
        model.render(Conversation(messages)),
        model.render(Conversation(messages, add_generation_prompt=False)),
    )
    assert with_prompt.startswith(without)
    assert len(with_prompt) > len(without)
    assert "Hello" in without


def test_eos_ids_are_special(model: TextModel) -> None:
    assert model.eos_token_ids
    assert set(model.eos_token_ids) <= set(model.pieces.special_token_ids)


def test_sentence_piece_decoders_are_read_too() -> None:
    tokenizer = Tokenizer(models.BPE({"▁a": 0, "b": 1, "<0x0A>": 2}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    pieces = pieces_of(tokenizer)
    assert pieces.pieces == [b" a", b"b", b"\n"]
    assert pieces.strips_leading_space


def test_a_text_that_is_cut_keeps_its_special_tokens(minilm: Path) -> None:
    model = TextModel("minilm", minilm)
    whole = model.encode("one two three four five", True)
    assert (len(whole), whole[0], whole[-1]) == (7, 101, 102)
    assert model.encode("one two three four five", True, 5) == [*whole[:4], 102]
    assert model.encode("one two three four five", True, 7) == whole
    assert model.encode("one two three four five", False, 2) == whole[1:3]
    assert model.encode("one two three four five", True, 1) == [101]


@pytest.mark.parametrize("limit", [None, *range(4, 20)])
@pytest.mark.parametrize(
    "texts", [("one two three", "a b c d e f g h"), ("a b c d e f g h", "one two"), ("a b c", "d e f")]
)
def test_a_pair_is_cut_as_the_library_cuts_it(texts: tuple[str, str], limit: int | None, minilm: Path) -> None:
    model, library = TextModel("minilm", minilm), Tokenizer.from_file(str(minilm / "tokenizer.json"))
    library.no_padding()
    library.no_truncation()
    if limit is not None:
        library.enable_truncation(limit, strategy="longest_first")
    wanted = TextToEncode("minilm", texts[0], max_token_count=limit, pair_text=texts[1])
    assert model.encode_text(wanted) == library.encode(*texts).ids


def test_other_decoders_are_refused_by_name() -> None:
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(Unsupported, match="WordPiece"):
        pieces_of(tokenizer)


def folder_with(tmp_path: Path, **config: Any) -> Path:
    for name in ("tokenizer.json", "config.json", "generation_config.json"):
        shutil.copy(CHECKPOINT / name, tmp_path / name)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_a_template_that_refuses_says_why(tmp_path: Path) -> None:
    template = "{{ raise_exception('roles must alternate') }}"
    model = TextModel("m", folder_with(tmp_path, chat_template=template))
    with pytest.raises(InvalidRequest, match="roles must alternate"):
        model.render(Conversation((Message("user", "a"),)))


def test_an_error_says_whether_the_template_is_that_of_the_request(tmp_path: Path) -> None:
    refusing = "{{ raise_exception('no') }}"
    model = TextModel("m", folder_with(tmp_path, chat_template=refusing))
    with pytest.raises(InvalidRequest, match="template of this model refuses"):
        model.render(Conversation((Message("user", "a"),)))
    with pytest.raises(InvalidRequest, match="template of this request refuses"):
        model.render(Conversation((Message("user", "a"),), chat_template=refusing))


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.popen('id') }}",
    ],
)
def test_templates_run_in_a_sandbox(tmp_path: Path, template: str) -> None:
    model = TextModel("m", folder_with(tmp_path, chat_template=template))
    with pytest.raises(InvalidRequest):
        model.render(Conversation((Message("user", "a"),)))


def test_no_template_is_a_clear_error(tmp_path: Path) -> None:
    model = TextModel("m", folder_with(tmp_path))
    assert not model.has_chat_template
    with pytest.raises(Unsupported, match="/v1/completions"):
        model.render(Conversation((Message("user", "a"),)))


def test_broken_folders(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpoint, match=r"tokenizer\.json"):
        TextModel("m", tmp_path)
    with pytest.raises(InvalidCheckpoint, match="template"):
        TextModel("m", folder_with(tmp_path, chat_template="{% if %}"))
