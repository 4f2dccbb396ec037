"""Arguments of calls are read in time that grows with their length alone, and whatever a model writes is some JSON."""

import gc
import json
import time

import pytest

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.argument_syntax import ArgumentSyntax
from headrace.gateway.chat.syntax.python_arguments import PythonArguments
from headrace.gateway.chat.syntax.quoted_arguments import QuotedArguments
from headrace.gateway.chat.syntax.xml_arguments import GLM, MINIMAX, QWEN, SEED

QUOTE = '<|"|>'
SYNTAXES: dict[str, tuple[ArgumentSyntax, str]] = {
    "qwen": (QWEN, "</function>"),
    "glm": (GLM, "</tool_call>"),
    "minimax": (MINIMAX, "</invoke>"),
    "seed": (SEED, "</function>"),
    "quoted": (QuotedArguments(QUOTE), "}"),
    "python": (PythonArguments(), ")"),
}
"""Each with the text that ends its arguments."""
PARTS = (
    "a",
    " ",
    "\n",
    "<parameter=",
    "<parameter=a>",
    "<parameter=\n",
    '<parameter name="',
    '<parameter name="a">',
    "<arg_key>",
    "<arg_key> ",
    "<arg_key>a</arg_key>\n",
    "<arg_key>a</arg_key><arg_value>",
    f"a:{QUOTE}",
    "a:{",
    "a:[",
    "a=",
    "a=-",
    "a='\\",
    "a=(",
    "<",
    "[",
)
SIZE = 20_000
PIECE = 4
"""Characters of a token, about."""
NOISE_SECONDS = 0.05


def read(reader: ArgumentReader, text: str, piece: int) -> str:
    """Reads a text piece by piece, and returns the JSON of its arguments."""
    found = ""
    for start in range(0, len(text), piece):
        new, rest = reader.push(text[start : start + piece])
        found += new
        if rest is not None:
            return found
    return found + reader.flush()


def seconds(syntax: ArgumentSyntax, text: str, piece: int) -> float:
    # Collections look through all that the tests before have left.
    gc.disable()
    try:
        begun = time.process_time()
        read(syntax.reader({}), text, piece)
        return time.process_time() - begun
    finally:
        gc.enable()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", SYNTAXES)
def test_time_grows_with_the_length_alone(name: str, part: str) -> None:
    """Eight times the text would take 64 times as long, were each part to have all of it read again, or only copied,
    which shows in long texts."""
    syntax, end = SYNTAXES[name]
    for piece, few in ((PIECE, SIZE), (32 * SIZE + len(end), 4 * SIZE)):
        short, long = (part * (size // len(part)) + end for size in (few, 8 * few))
        assert seconds(syntax, long, piece) < 20 * seconds(syntax, short, piece) + NOISE_SECONDS


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", SYNTAXES)
def test_whatever_is_written_is_some_json(name: str, part: str) -> None:
    syntax, end = SYNTAXES[name]
    for text in (part * 5000 + end, part * 5000, f"a={part * 300}{end}", f"a:{part * 300}{end}"):
        found = read(syntax.reader({"properties": {"a": {}}}), text, len(text))
        assert not found or isinstance(json.loads(found), dict)


def test_deep_values_stay_texts() -> None:
    deep = "[" * 100_000
    assert json.loads(read(QWEN.reader({}), f"<parameter=a>\n{deep}\n</parameter>\n</function>", 1000)) == {"a": deep}
    written = f"<arg_key> a </arg_key>\n<arg_value>{deep}</arg_value>\n</tool_call>"
    assert json.loads(read(GLM.reader({}), written, 1000)) == {"a": deep}
