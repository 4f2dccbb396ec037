"""Tokenizers of GGUF files: marks that end a turn, the space before a text, marks around it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import pytest

from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata
from headrace.errors import InvalidCheckpoint, Unsupported
from headrace.gguf_text.gguf_header import GgufHeader
from headrace.gguf_text.gguf_tokenizer import GgufText
from headrace.tokenizer.text.pieces import pieces_of

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
BYTES = {f"<0x{byte:02X}>": BYTE for byte in range(256)}
BASE = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, **BYTES, **dict.fromkeys(("▁", "a", "▁a", "b"), NORMAL)}
ENDS = (
    "<|im_end|>",
    "<|end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "[EOT]",
    "<eos>",
    "<turn|>",
)


def write(path: Path, tokens: dict[str, int], model: str = "llama", **fields: Any) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(list(tokens))
    writer.add_token_types(list(tokens.values()))
    writer.add_token_scores([-float(index) for index in range(len(tokens))])
    for name, value in fields.items():
        key = "general.name" if name == "name" else f"tokenizer.ggml.{name}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_uint32(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def ends_of(path: Path, tokens: Sequence[str]) -> list[str]:
    """Texts of the tokens that end a turn, on which service and engine agree."""
    ids = GgufText(path).eos_token_ids
    assert GgufMetadata(path, GgufHeader(path)).eos_token_ids == ids
    return [tokens[token_id] for token_id in ids]


@pytest.mark.parametrize("text", ENDS)
def test_a_mark_that_closes_turns_ends_an_answer_though_the_file_does_not_name_it(tmp_path: Path, text: str) -> None:
    tokens = {**BASE, text: CONTROL, "<|other|>": CONTROL}
    path = write(tmp_path / "m.gguf", tokens, eos_token_id=2)
    assert ends_of(path, list(tokens)) == ["</s>", text]


def test_a_mark_of_the_wrong_type_is_one_all_the_same(tmp_path: Path) -> None:
    tokens = {**BASE, "<|im_end|>": NORMAL}
    text = GgufText(write(tmp_path / "m.gguf", tokens, eos_token_id=2))
    assert text.tokenizer().encode("b<|im_end|>", add_special_tokens=False).tokens[-1] == "<|im_end|>"
    assert list(tokens).index("<|im_end|>") in pieces_of(text.tokenizer()).special_token_ids


def test_the_end_of_a_part_of_an_answer_does_not_end_it(tmp_path: Path) -> None:
    tokens = {**BASE, **dict.fromkeys(("<|end|>", "<|return|>", "<|call|>"), CONTROL)}
    path = write(tmp_path / "m.gguf", tokens, eos_token_id=list(tokens).index("<|return|>"))
    assert ends_of(path, list(tokens)) == ["<|return|>", "</s>", "<|call|>"]


def test_ids_that_are_no_tokens_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", BASE, eos_token_id=2, eot_token_id=(1 << 32) - 1, padding_token_id=(1 << 32) - 1)
    assert ends_of(path, list(BASE)) == ["</s>"]
    assert GgufText(path).special_tokens == {"eos_token": "</s>"}


@pytest.mark.parametrize("adds", [True, False])
def test_the_space_before_a_text_is_that_of_the_file(tmp_path: Path, adds: bool) -> None:
    tokenizer = GgufText(write(tmp_path / "m.gguf", BASE, add_space_prefix=adds, add_bos_token=False)).tokenizer()
    assert tokenizer.encode("a").tokens == (["▁a"] if adds else ["a"])
    assert tokenizer.decode([list(BASE).index("▁a")]) == ("a" if adds else " a")
    assert pieces_of(tokenizer).strips_leading_space is adds


def test_gemma_4_joins_pieces_by_the_merges_of_its_file(tmp_path: Path) -> None:
    """Scores tell nothing there, spaces stand for themselves, and bytes stand in for what has no piece."""
    tokens = {**BASE, "<bos>": CONTROL, '<|"|>': USER_DEFINED, "aa": NORMAL, "▁aa": NORMAL, "b▁": NORMAL}
    merges = ["a a", "▁ aa"]
    path = write(tmp_path / "f", tokens, "gemma4", merges=merges, bos_token_id=list(tokens).index("<bos>"))
    tokenizer = GgufText(path).tokenizer()
    found = tokenizer.encode('aa aab \n<|"|>')
    assert found.tokens == ["<bos>", "aa", "▁aa", "b", "▁", "<0x0A>", '<|"|>']
    assert tokenizer.decode(found.ids) == 'aa aab \n<|"|>'


def test_marks_around_a_text_are_those_of_the_file(tmp_path: Path) -> None:
    both = write(tmp_path / "m.gguf", BASE, bos_token_id=1, eos_token_id=2, add_eos_token=True)
    assert GgufText(both).tokenizer().encode("a").tokens == ["<s>", "▁a", "</s>"]
    without = write(tmp_path / "n.gguf", BASE, bos_token_id=1, add_bos_token=False)
    assert GgufText(without).tokenizer().encode("a").tokens == ["▁a"]


def test_marks_of_phi_3_take_the_space_behind_them(tmp_path: Path) -> None:
    tokens = {**BASE, "<|user|>": CONTROL}
    phi, other = [write(tmp_path / f"{name}.gguf", tokens, name=name, add_bos_token=False) for name in ("Phi-3", "X")]
    ids = {token: index for index, token in enumerate(tokens)}
    assert GgufText(phi).tokenizer().encode("<|user|>\n a").ids == [ids["<|user|>"], ids["▁a"]]
    assert GgufText(other).tokenizer().encode("<|user|>\n a").ids[1:-1] == [ids["▁"], ids["<0x0A>"]]


def test_templates_have_the_names_of_the_file(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_token_list(["a"])
    writer.add_chat_template([{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert GgufText(tmp_path / "m.gguf").chat_templates == {"default": "plain", "tool_use": "tools"}


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("llama-bpe", ["HelloWorld", "'ll", " ", "123", "45", " a", "/\n\n"]),
        ("qwen2", ["HelloWorld", "'ll", " ", *"12345", " a", "/\n\n"]),
        ("gpt-4o", ["Hello", "World'll", " ", "123", "45", " a", "/\n\n"]),
        ("deepseek-llm", ["HelloWorld", "'", "ll", " ", "12345", " a", "/", "\n", "\n"]),
        ("deepseek-v3", ["HelloWorld", "'ll", " ", "123", "45", " a", "/\n\n"]),
        ("minimax-m2", ["Hello", "World'll", " ", "123", "45", " a", "/\n\n"]),
        ("llama4", ["Hello", "World'll", " ", "123", "45", " a", "/\n\n"]),
        ("falcon", ["HelloWorld", "'", "ll", " ", "123", "45", " a", "/", "\n\n"]),
    ],
)
def test_text_is_split_by_the_pattern_that_the_file_names(pre: str, expected: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", dict.fromkeys(("a", "b", "ab"), NORMAL), "gpt2", pre=pre)
    splitter = GgufText(path).tokenizer().pre_tokenizer
    found = splitter.pre_tokenize_str("HelloWorld'll 12345 a/\n\n")
    spoken = [piece.replace("Ġ", " ").replace("Ċ", "\n") for piece, _ in found]
    assert spoken == expected


def words_of(path: Path, name: str, text: str) -> list[str]:
    """Splits a text as a file with the pre-tokenizer `name` does."""
    written = write(path / "m.gguf", {"a": NORMAL, "aa": NORMAL}, "gpt2", pre=name, merges=["a a"])
    splitter = GgufText(written).tokenizer().pre_tokenizer
    assert splitter is not None
    found = [text[begin:end] for _, (begin, end) in splitter.pre_tokenize_str(text)]
    assert "".join(found) == text
    return found


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("llama-bpe falcon-h1 lfm2 pixtral dbrx", "It'S 1234 isn't", ["It", "'S", " ", "123", "4", " isn", "'t"]),
        ("qwen2 hunyuan qwen35 seed-coder", "It'S 12 isn't", ["It", "'S", " ", "1", "2", " isn", "'t"]),
        ("qwen2 hunyuan", "ne\u0301e (a\u0301)", ["ne", "\u0301e", " (", "a", "\u0301)"]),
        ("qwen35", "ne\u0301e (a\u0301)", ["ne\u0301e", " (", "a\u0301", ")"]),
        ("qwen2 qwen35", "a;\n\nb", ["a", ";\n\n", "b"]),
        ("seed-coder", "a;\n\nb", ["a", ";", "\n\n", "b"]),
        ("tekken", "theLastOne isn't 12/\nx", ["the", "Last", "One", " isn", "'t", " ", "1", "2", "/\n", "x"]),
        ("gpt-4o llama4", "theLast isn't 1234!\n/x", ["the", "Last", " isn't", " ", "123", "4", "!\n/", "x"]),
        ("kimi-k2", "see見出し 1234!\n/x", ["see", "見出", "し", " ", "123", "4", "!\n", "/x"]),
        ("gpt-4o", "see見出し", ["see見出し"]),
        ("hunyuan-dense deepseek-v3", "see見出し 12345.a", ["see", "見出し", " ", "123", "45", ".a"]),
        ("bailingmoe", "it's\n\nb 12", ["it", "'s", "\n\n", "b", " ", "1", "2"]),
        ("gpt-2 mpt exaone4", "isn't It'S 123", ["isn", "'t", " It", "'", "S", " 123"]),
        ("exaone starcoder command-r", "isn't 123", ["isn", "'t", " ", "1", "2", "3"]),
    ],
)
def test_text_is_split_as_the_pre_tokenizer_of_the_file_says(
    names: str, text: str, expected: list[str], tmp_path: Path
) -> None:
    for name in names.split():
        assert words_of(tmp_path, name, text) == expected, name


def test_a_word_that_is_a_token_stays_whole_where_the_pre_tokenizer_says_so(tmp_path: Path) -> None:
    """Tekken's files do not list every merge that leads to a token, and begin a text with a mark unless they say
    otherwise."""
    tokens = {"a": NORMAL, "b": NORMAL, "ba": NORMAL, "<s>": CONTROL, "ab": NORMAL}
    found = {
        name: GgufText(write(tmp_path / name, tokens, "gpt2", pre=name, merges=["b a"], bos_token_id=3)).tokenizer()
        for name in ("tekken", "qwen2")
    }
    assert found["tekken"].encode("ab").tokens == ["<s>", "ab"]
    assert found["qwen2"].encode("ab").tokens == ["a", "b"]


def test_an_unknown_pre_tokenizer_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", {"a": NORMAL}, "gpt2", pre="chameleon", merges=["a a"])
    with pytest.raises(
        Unsupported, match=r"pre-tokenizer 'chameleon' is not supported; supported: llama-bpe, .*tekken"
    ):
        GgufText(path).tokenizer()


@pytest.mark.parametrize("merges", [["a c"], ["ab"], [""]])
@pytest.mark.parametrize("model", ["gpt2", "gemma4"])
def test_merges_of_what_are_no_tokens_are_refused(tmp_path: Path, model: str, merges: list[str]) -> None:
    path = write(tmp_path / "model.gguf", BASE, model, merges=merges, pre="gpt-2")
    with pytest.raises(InvalidCheckpoint, match="a merge of its tokenizer is not of its tokens"):
        GgufText(path).tokenizer()
