"""Error for a grammar that cannot be followed."""

import re

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.errors.tree import InvalidRequest, Unsupported

MAX_EXPLANATION_LENGTH = 300
_UNKNOWN_KEYWORDS = re.compile(r"^Unimplemented keys: \[(.*)\]")
_LINE_OF_REGEX_ERROR = re.compile(r"^error: (.*)$", re.MULTILINE)
_PLACE = re.compile(r"^at \d+\(\d+\): |^\d+\(\d+\): ")


def refusal(grammar: Grammar, explanation: str) -> InvalidRequest:
    """The error for a grammar that llguidance does not take. Names the keywords where it is for lack of them."""
    is_lark = grammar.kind in (GrammarKind.LARK, GrammarKind.LARK_WITH_SCHEMAS)
    name = "grammar" if is_lark else grammar.kind.value
    if keywords := _UNKNOWN_KEYWORDS.search(explanation):
        return Unsupported(f"the {name} uses {keywords[1]}, which is not supported", param=grammar.param)
    if line := _LINE_OF_REGEX_ERROR.search(explanation):
        return InvalidRequest(f"the {name} cannot be used: {line[1]}", param=grammar.param)
    first = _PLACE.sub("", explanation).partition("\n")[0][:MAX_EXPLANATION_LENGTH]
    return InvalidRequest(f"the {name} cannot be used: {first}", param=grammar.param)
