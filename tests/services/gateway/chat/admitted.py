"""Texts that the grammar of an answer admits."""

from collections.abc import Sequence

from llguidance import LLMatcher, LLTokenizer

from headrace.engine.contract.grammar import Grammar as EngineGrammar
from headrace.engine.contract.grammar import GrammarKind
from headrace.engine.grammar.grammar_source import write_source
from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.v1.generation_pb2 import GRAMMAR_KIND_LARK_WITH_SCHEMAS


def admits_tokens(
    shown: AnswerStyle, tokenizer: LLTokenizer, token_ids: Sequence[int], wanted: OutputGrammar | None
) -> bool:
    """Whether the grammar of an answer admits tokens, and that it ends there."""
    grammar = shown.grammar(wanted)
    assert grammar is not None
    assert grammar.kind == GRAMMAR_KIND_LARK_WITH_SCHEMAS
    source = write_source(EngineGrammar(GrammarKind.LARK_WITH_SCHEMAS, grammar.text))
    matcher = LLMatcher(tokenizer, source, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    if matcher.validate_tokens(list(token_ids)) < len(token_ids):
        return False
    matcher.consume_tokens(list(token_ids))
    return bool(matcher.is_accepting())
