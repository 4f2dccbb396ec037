"""Command lines that cannot be read are answered in the words that people type."""

import pytest
from tests.e2e.command_line import headrace_here


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("explain", "REQUEST is missing; see headrace explain --help"),
        ("keys revoke", "KEY_ID is missing; see headrace keys revoke --help"),
        ("bench compare one.json", "SECOND is missing"),
        ("top --interval", "--interval needs a value"),
        ("stat", "there is no command stat: did you mean status?"),
        ("xyzzy", "there are: up, chat, status, stop, restart, ps, top, logs, models, keys, certs, drain, usage"),
        ("chat --zork", "Unknown option: --zork. See headrace chat --help"),
        ("logs --level zork", "debug"),
    ],
)
def test_a_line_is_answered(line: str, said: str) -> None:
    done = headrace_here(*line.split())
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("command", ["trace", "eval", "plan", "quantize", "chat", "keys create", "logs"])
def test_help_has_nothing_of_the_parser(command: str) -> None:
    text = headrace_here(*command.split(), "--help").stdout
    assert "Parameters" in text
    for artefact in ("--empty-", "--no-", '""', "default: False", "REQUEST --", "MODEL --", "NAME --", "SERVICE --"):
        assert artefact not in text
