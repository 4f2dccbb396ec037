"""`headrace chat`: talks to a model in the terminal."""

import json as json_module
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx2
from cyclopts import Parameter
from rich.markup import escape

from headrace.cli.output import console, error_console, print_json
from headrace.cli.target import KeyFlag, choose_model, key_headers, platform_url
from headrace.errors import HeadraceError, Unavailable
from headrace.supervisor.state import DEFAULT_FOLDER

READ_TIMEOUT = 600.0
_HELP = "[dim]/clear forgets the conversation, /exit or Ctrl-D leaves, Ctrl-C stops an answer.[/]"


def chat(
    model: str | None = None,
    *,
    prompt: Annotated[str | None, Parameter(name=["--prompt", "-p"])] = None,
    system: str | None = None,
    temperature: float = 0.0,
    max_tokens: int | None = None,
    url: str = "",
    key: KeyFlag = "",
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Talks to a model in the terminal, streaming.

    Parameters
    ----------
    model
        The model to talk to; default: the first one served.
    prompt
        Ask this one question, print the answer and exit.
    system
        A system message to begin with.
    temperature
        0 takes the most likely token every time.
    max_tokens
        Most tokens per answer.
    url
        Address of a platform, such as http://127.0.0.1:8000; default: the one that runs on the state folder.
    key
        API key, where the platform asks for one. Better given as HEADRACE_API_KEY.
    state_dir
        The state folder that the platform was started with.
    json
        With --prompt or piped input: print one JSON object per answer.
    """
    address = platform_url(url, state_dir)
    name = choose_model(address, model, key)
    settings = {"model": name, "temperature": temperature, "stream": True}
    settings |= {"max_tokens": max_tokens} if max_tokens is not None else {}
    conversation = _Conversation(f"{address}/v1/chat/completions", settings, system, key)
    if prompt is not None:
        conversation.answer(prompt, json)
        return
    if not sys.stdin.isatty():
        for line in sys.stdin:
            if line.strip():
                conversation.answer(line.strip(), json)
        return
    console.print(f"[bold]{name}[/] at {address}\n{_HELP}")
    _talk(conversation)


def _talk(conversation: "_Conversation") -> None:
    while True:
        try:
            question = console.input("\n[bold cyan]>[/] ").strip()
        except (EOFError, KeyboardInterrupt):
            console.print()
            return
        if question in {"/exit", "/quit"}:
            return
        if question == "/clear":
            conversation.clear()
            console.print("[dim]forgotten[/]")
        elif question.startswith("/"):
            console.print(_HELP)
        elif question:
            try:
                conversation.answer(question, False)
            except HeadraceError as error:
                error_console.print(f"[bold red]error:[/] {escape(error.message)}")


class _Conversation:
    """The conversation so far."""

    def __init__(self, url: str, settings: dict[str, Any], system: str | None, key: str = "") -> None:
        self._url = url
        self._headers = key_headers(key)
        self._settings = settings
        self._opening = [{"role": "system", "content": system}] if system else []
        self._messages: list[dict[str, str]] = list(self._opening)

    def clear(self) -> None:
        self._messages = list(self._opening)

    def answer(self, question: str, as_json: bool) -> None:
        """Prints the answer as it arrives. Ctrl-C stops it; the text so far stays in the conversation."""
        self._messages.append({"role": "user", "content": question})
        said = ""
        try:
            for text in self._stream():
                said += text
                if not as_json:
                    console.print(text, end="", markup=False, soft_wrap=True)
        except KeyboardInterrupt:
            console.print(" [dim](stopped)[/]", end="")
        except HeadraceError:
            self._messages.pop()
            raise
        self._messages.append({"role": "assistant", "content": said})
        if as_json:
            print_json({"question": question, "answer": said})
        else:
            console.print()

    def _stream(self) -> Iterator[str]:
        body = {**self._settings, "messages": self._messages}
        try:
            with httpx2.stream("POST", self._url, json=body, headers=self._headers, timeout=READ_TIMEOUT) as response:
                if response.status_code != httpx2.codes.OK:
                    response.read()
                    raise Unavailable(_message_of(response.text))
                for line in response.iter_lines():
                    if line.startswith('data: {"error"'):
                        raise Unavailable(_message_of(line[6:]))
                    if line.startswith("data: {"):
                        for choice in json_module.loads(line[6:])["choices"]:
                            yield choice["delta"].get("content", "")
        except httpx2.HTTPError as error:
            raise Unavailable(f"the connection to the platform was lost: {error}") from None


def _message_of(body: str) -> str:
    try:
        return str(json_module.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:300]
