"""Grammars for models whose vocabulary is in a GGUF file, in both kinds of tokenizers."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.engine.grammar.grammar_compiler import GrammarCompiler
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.errors import Unsupported
from headrace.gguf_text.gguf_tokenizer import GgufText

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
SENTENCE_PIECE = {
    "<unk>": UNKNOWN,
    "<s>": CONTROL,
    "</s>": CONTROL,
    **{f"<0x{byte:02X}>": BYTE for byte in range(256)},
    **dict.fromkeys(("▁", "y", "e", "s", "ye", "yes", "▁yes", "n", "o", "no"), NORMAL),
}


def write(path: Path, model: str, tokens: dict[str, int]) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(list(tokens))
    writer.add_token_types(list(tokens.values()))
    writer.add_token_scores([-float(index) for index in range(len(tokens))])
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def compile_choice(path: Path, vocab_size: int) -> TokenMatcher:
    spec = dataclasses.replace(SimEngine(SimConfig(vocabulary_size=vocab_size)).spec, eos_token_ids=frozenset({2}))
    compiler = GrammarCompiler(path, spec)
    try:
        return compiler.compile(Grammar(GrammarKind.CHOICE, '["yes é", "no"]')).result(timeout=20)
    finally:
        compiler.close()


def test_sentence_pieces(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "llama", SENTENCE_PIECE)
    matcher = compile_choice(path, len(SENTENCE_PIECE))
    ids = {token: index for index, token in enumerate(SENTENCE_PIECE)}
    output = [ids[token] for token in ("yes", "▁", "<0xC3>", "<0xA9>")]
    for count, token in enumerate(output):
        matcher.follow(output[:count])
        assert matcher.allowed([ids["no"]]) == ((ids["no"],) if count == 0 else ())
        assert matcher.allowed([token]) == (token,)
    matcher.follow(output)
    assert matcher.allowed([ids["yes"]]) == ()
    assert matcher.matcher.is_accepting()
    assert GgufText(path).tokenizer().decode([ids["▁yes"], ids["▁"], ids["<0xC3>"], ids["<0xA9>"]]) == "yes é"


@pytest.mark.parametrize(
    ("model", "damage", "named"),
    [
        ("bert", lambda path: None, "'bert' is not supported"),
        ("llama", lambda path: path.write_bytes(path.read_bytes()[:60]), "not a whole GGUF file"),
        ("llama", Path.unlink, "not a whole GGUF file"),
    ],
)
def test_vocabularies_that_cannot_be_read_are_typed_errors(
    tmp_path: Path, model: str, damage: Callable[[Path], object], named: str
) -> None:
    path = write(tmp_path / "m.gguf", model, SENTENCE_PIECE)
    damage(path)
    with pytest.raises(Unsupported, match=named):
        compile_choice(path, len(SENTENCE_PIECE))
