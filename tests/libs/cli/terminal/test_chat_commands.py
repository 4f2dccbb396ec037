"""Commands of a chat change the conversation, and say what they did or why they did not."""

import json
from pathlib import Path

import pytest

from headrace.cli.terminal.chat_commands import HELP, ChatCommands
from headrace.cli.terminal.chat_turns import ChatHistory
from headrace.errors import InvalidRequest

TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me."}]


@pytest.fixture
def history() -> ChatHistory:
    made = ChatHistory("http://none/v1/chat/completions", {"model": "a"}, None)
    made.turns = list(TURNS)
    return made


@pytest.fixture
def commands(history: ChatHistory) -> ChatCommands:
    return ChatCommands(history, lambda: ["a", "b"])


def test_help_names_every_command(commands: ChatCommands) -> None:
    told = commands.run("/help")
    assert all(f"{name} " in told for name in HELP)


def test_settings_are_changed_and_shown(commands: ChatCommands, history: ChatHistory) -> None:
    assert commands.run("/show") == "a: the model's own settings; 1 turn"
    assert commands.run("/set temperature 0.7") == "temperature is 0.7"
    assert commands.run("/set seed  5") == "seed is 5"
    assert commands.run("/set") == "a: temperature 0.7, seed 5; 1 turn"
    assert commands.run("/set seed -") == "seed is the model's own"
    assert history.settings == {"model": "a", "temperature": 0.7}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("/set warmth 1", "write /set NAME VALUE, with one of: temperature"),
        ("/set seed", "write /set NAME VALUE"),
        ("/set temprature 0", "there is no setting temprature; did you mean temperature?"),
        ("/set seed 1.5", "seed is an integer, not '1.5'"),
        ("/set temperature hot", "temperature is a number, not 'hot'"),
        ("/model c", "no model 'c' is served; there are: a, b"),
        ("/sav x", "did you mean /save?"),
        ("/xyzzy", "/help lists them"),
        ("/save", "name a file"),
        ("/save /none/there", "cannot write /none/there: No such file"),
        ("/load /none/there", "cannot read /none/there: No such file"),
    ],
)
def test_mistakes_are_told(commands: ChatCommands, history: ChatHistory, line: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason.replace("?", r"\?")):
        commands.run(line)
    assert (history.settings, history.turns) == ({"model": "a"}, TURNS)


def test_model_and_system_message_are_changed(commands: ChatCommands, history: ChatHistory) -> None:
    assert commands.run("/model") == "a; also served: b"
    commands.run("/model b")
    assert history.settings["model"] == "b"
    assert commands.run("/system") == "there is no system message"
    commands.run("/system Be brief. ")
    assert commands.run("/system") == "Be brief."
    commands.run("/system -")
    assert history.system == ""


def test_a_conversation_is_saved_and_loaded(commands: ChatCommands, history: ChatHistory, tmp_path: Path) -> None:
    path = tmp_path / "a talk.json"
    commands.run("/system Be brief.")
    commands.run("/set top_k 3")
    assert str(path) in commands.run(f"/save {path}")
    assert path.stat().st_mode & 0o077 == 0
    commands.run("/clear")
    commands.run("/system -")
    commands.run("/set top_k -")
    assert commands.run(f"/load {path}") == "a: top_k 3; 1 turn"
    assert (history.turns, history.system) == (TURNS, "Be brief.")


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", '{"messages": [{"role": "user", "content": "Who?"}]}', '{"messages": [], "settings": 1}'],
)
def test_another_file_is_no_conversation(
    commands: ChatCommands, history: ChatHistory, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "x"
    path.write_text(content)
    with pytest.raises(InvalidRequest, match="no conversation"):
        commands.run(f"/load {path}")
    assert history.turns == TURNS


def test_the_last_question_is_taken_back(history: ChatHistory) -> None:
    assert history.take_back() == "Who?"
    assert history.turns == []
    with pytest.raises(InvalidRequest, match="no question yet"):
        history.take_back()


def test_what_is_saved_says_which_model_answered(commands: ChatCommands, tmp_path: Path) -> None:
    commands.run(f"/save {tmp_path / 'x'}")
    assert json.loads((tmp_path / "x").read_text())["model"] == "a"
