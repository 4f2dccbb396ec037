"""Commands within `headrace chat`: a line that begins with a slash."""

import difflib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.cli.terminal.chat_turns import ChatHistory
from headrace.errors import InvalidRequest
from headrace.storage.whole_file import write_whole

SETTINGS: Mapping[str, Callable[[str], Any]] = {
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "min_p": float,
    "max_tokens": int,
    "seed": int,
    "presence_penalty": float,
    "frequency_penalty": float,
    "repetition_penalty": float,
}
"""Settings of answers that can be changed, and how each is read."""
HELP: Mapping[str, tuple[str, str]] = {
    "/help": ("", "lists the commands"),
    "/model": ("[NAME]", "shows the model and what else is served, or changes it"),
    "/system": ("[TEXT]", "shows the system message, or changes it; - removes it"),
    "/set": ("[NAME VALUE]", f"changes how answers are made: {', '.join(SETTINGS)}; VALUE - is the model's own"),
    "/show": ("", "shows model, settings and the length of the conversation"),
    "/retry": ("", "asks the last question again"),
    "/clear": ("", "forgets the conversation"),
    "/save": ("FILE", "writes the conversation to a file"),
    "/load": ("FILE", "continues the conversation of a file"),
    "/exit": ("", "leaves, as Ctrl-D does"),
}
"""Arguments and meaning of each command."""


class ChatCommands:
    """Carries commands out on a conversation."""

    def __init__(self, conversation: ChatHistory, models: Callable[[], list[str]]) -> None:
        """`models`: asks the platform which it serves. Raises HeadraceError."""
        self._conversation = conversation
        self._models = models
        self._actions: dict[str, Callable[[str], str]] = {
            "/help": lambda _: help_text(),
            "/model": self._model,
            "/system": self._system,
            "/set": self._set,
            "/show": lambda _: self._shown(),
            "/clear": lambda _: self._clear(),
            "/save": self._save,
            "/load": self._load,
        }

    def run(self, line: str) -> str:
        """Carries a command out, and returns what to say. Raises HeadraceError for one that cannot be."""
        name, _, argument = line.partition(" ")
        action = self._actions.get(name)
        if action is None:
            near = difflib.get_close_matches(name, HELP, n=1)
            hint = f"did you mean {near[0]}?" if near else "/help lists them"
            raise InvalidRequest(f"there is no command {name}; {hint}")
        return action(argument.strip())

    def _model(self, name: str) -> str:
        served = self._models()
        if not name:
            others = ", ".join(other for other in served if other != self._conversation.settings["model"])
            return f"{self._conversation.settings['model']}" + (f"; also served: {others}" if others else "")
        if name not in served:
            raise InvalidRequest(f"no model {name!r} is served; there are: {', '.join(served)}")
        self._conversation.settings["model"] = name
        return f"{name} answers from now on"

    def _system(self, text: str) -> str:
        if not text:
            return self._conversation.system or "there is no system message"
        self._conversation.system = "" if text == "-" else text
        return "the system message is gone" if text == "-" else "it holds from the next question on"

    def _set(self, argument: str) -> str:
        name, _, value = argument.partition(" ")
        if not argument:
            return self._shown()
        if name not in SETTINGS and (near := difflib.get_close_matches(name, SETTINGS, n=1)):
            raise InvalidRequest(f"there is no setting {name}; did you mean {near[0]}?")
        if name not in SETTINGS or not value.strip():
            raise InvalidRequest(f"write /set NAME VALUE, with one of: {', '.join(SETTINGS)}")
        if value.strip() == "-":
            self._conversation.settings.pop(name, None)
            return f"{name} is the model's own"
        try:
            self._conversation.settings[name] = SETTINGS[name](value.strip())
        except ValueError:
            kind = "an integer" if SETTINGS[name] is int else "a number"
            raise InvalidRequest(f"{name} is {kind}, not {value.strip()!r}") from None
        return f"{name} is {self._conversation.settings[name]}"

    def _shown(self) -> str:
        given = {name: value for name, value in self._conversation.settings.items() if name in SETTINGS}
        told = ", ".join(f"{name} {value}" for name, value in given.items()) or "the model's own settings"
        count = len(self._conversation.turns) // 2
        return f"{self._conversation.settings['model']}: {told}; {count} turn{'' if count == 1 else 's'}"

    def _clear(self) -> str:
        self._conversation.clear()
        return "forgotten"

    def _save(self, name: str) -> str:
        path = _path(name)
        settings = {key: value for key, value in self._conversation.settings.items() if key in SETTINGS}
        content = {
            "model": self._conversation.settings["model"],
            "system": self._conversation.system,
            "settings": settings,
            "messages": self._conversation.turns,
        }
        try:
            write_whole(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")
        except OSError as error:
            raise InvalidRequest(f"cannot write {path}: {error.strerror}") from None
        return f"written to {path}"

    def _load(self, name: str) -> str:
        path = _path(name)
        try:
            content = json.loads(path.read_bytes())
            turns = _turns(content["messages"])
            system = str(content.get("system") or "")
            settings = {key: SETTINGS[key](value) for key, value in content.get("settings", {}).items()}
        except OSError as error:
            raise InvalidRequest(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidRequest(f"{path} is no conversation that /save has written") from None
        self._conversation.turns, self._conversation.system = turns, system
        self._conversation.settings.update(settings)
        return self._shown()


def help_text() -> str:
    """Returns a line for each command."""
    usages = {name: f"{name} {arguments}".rstrip() for name, (arguments, _) in HELP.items()}
    width = max(map(len, usages.values()))
    lines = [f"{usages[name]:<{width}}  {meaning}" for name, (_, meaning) in HELP.items()]
    ways = 'Several lines: begin and end with """, or end each with a backslash. Ctrl-C stops an answer.'
    return "\n".join([*lines, ways])


def _turns(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Returns questions and answers in turn. Raises ValueError for anything else."""
    turns = [{"role": str(one["role"]), "content": str(one["content"])} for one in messages]
    if [one["role"] for one in turns] != ["user", "assistant"] * (len(turns) // 2):
        raise ValueError("a question has no answer")
    return turns


def _path(name: str) -> Path:
    if not name:
        raise InvalidRequest("name a file, as in /save sea.json")
    return Path(name).expanduser()
