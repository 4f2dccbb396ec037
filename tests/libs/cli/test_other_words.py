"""Words of other servers lead to Headrace's own."""

import pytest

from headrace.cli.__main__ import COMMANDS
from headrace.cli.other_words import HINTS, MEANINGS, translated
from headrace.errors import InvalidRequest


def test_words_of_others_mean_commands_that_there_are() -> None:
    assert translated(["serve", "qwen3-0.6b", "--replicas", "2"]) == ["up", "qwen3-0.6b", "--replicas", "2"]
    assert translated(["pull", "org/name"]) == ["models", "pull", "org/name"]
    assert translated(["down", "--timeout", "5"]) == ["stop", "--timeout", "5"]
    assert {command for command, *_ in MEANINGS.values()} <= COMMANDS.keys()
    assert COMMANDS.keys().isdisjoint(MEANINGS.keys() | HINTS.keys()), "an own word means itself"


@pytest.mark.parametrize("arguments", [[], ["up"], ["chat", "serve"], ["--help"], ["unheard"]])
def test_other_command_lines_stay_as_they_are(arguments: list[str]) -> None:
    assert translated(arguments) == arguments


@pytest.mark.parametrize("word", HINTS)
def test_a_word_without_a_counterpart_is_answered_with_the_way(word: str) -> None:
    with pytest.raises(InvalidRequest, match=f"no command {word}: .*headrace"):
        translated([word])
