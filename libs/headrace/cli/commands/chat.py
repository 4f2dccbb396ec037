"""`headrace chat`: talks to a model in the terminal."""

import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from headrace.cli.output import console, error_console, print_json
from headrace.cli.target import AuthorityFlag, KeyFlag, choose_model, platform_url, served_models
from headrace.cli.terminal.answer_view import AnswerView
from headrace.cli.terminal.chat_commands import HELP, ChatCommands
from headrace.cli.terminal.chat_turns import ChatHistory
from headrace.cli.terminal.line_reader import LineReader, usual_history
from headrace.errors import HeadraceError
from headrace.supervisor.state import DEFAULT_FOLDER

_HELP = "[dim]/help lists the commands, /exit or Ctrl-D leaves, Ctrl-C stops an answer.[/]"
LEAVING = ("/exit", "/quit", "/bye")
MAX_INTERRUPTS = 2
"""Interrupts in a row, with no question between them, that end the program."""


@dataclass(frozen=True, slots=True)
class _Options:
    as_json: bool
    is_quiet: bool


def chat(
    model: str | None = None,
    *,
    prompt: Annotated[str | None, Parameter(name=["--prompt", "-p"])] = None,
    system: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    url: str = "",
    key: KeyFlag = "",
    ca: AuthorityFlag = None,
    state_dir: Path = DEFAULT_FOLDER,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Talks to a model in the terminal, streaming.

    Parameters
    ----------
    model
        The model to talk to; default: the first one served.
    prompt
        Ask this one question, print the answer and exit. Text that is piped in follows it.
    system
        A system message to begin with.
    temperature
        0 takes the most likely token every time; default: the model's own.
    max_tokens
        Most tokens per answer.
    url
        Address of a platform, such as http://127.0.0.1:8000; default: the one that runs on the state folder.
    key
        API key, where the platform asks for one. Better given as HEADRACE_API_KEY.
    state_dir
        The state folder that the platform was started with.
    quiet
        Do not print how fast the answer came.
    json
        With --prompt or piped input: print one JSON object per answer.
    """
    address = platform_url(url, state_dir, ca)
    name = choose_model(address, model, key)
    given = {"temperature": temperature, "max_tokens": max_tokens}
    settings = {"model": name} | {field: value for field, value in given.items() if value is not None}
    options = _Options(json, quiet)
    conversation = ChatHistory(f"{address}/v1/chat/completions", settings, system, key)
    if prompt is not None or not sys.stdin.isatty():
        piped = "" if sys.stdin.isatty() else sys.stdin.read().strip()
        if question := "\n\n".join(filter(None, (prompt, piped))):
            _answer(conversation, question, options)
        return
    console.print(f"[bold]{name}[/] at {address}\n{_HELP}")
    commands = ChatCommands(conversation, lambda: list(served_models(address, key)))
    # A second Ctrl-C may come while the first is being answered.
    with suppress(KeyboardInterrupt), LineReader([*HELP, *LEAVING], usual_history()) as reader:
        _talk(conversation, commands, reader, options)
        # One that comes while the program leaves would be shown as an error.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _talk(conversation: ChatHistory, commands: ChatCommands, reader: LineReader, options: _Options) -> None:
    """Answers questions until the user leaves. One Ctrl-C may come too late for an answer, so it takes two in a row."""
    interrupts = 0
    while interrupts < MAX_INTERRUPTS:
        try:
            console.print()
            line = reader.read()
            interrupts = 0
            if line in LEAVING:
                return
            _respond(conversation, commands, line, options)
        except EOFError:
            break
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts < MAX_INTERRUPTS:
                console.print("\n[dim]Press Ctrl-C again, or Ctrl-D, to leave.[/]")
    console.print()


def _respond(conversation: ChatHistory, commands: ChatCommands, line: str, options: _Options) -> None:
    try:
        if line == "/retry":
            _answer(conversation, conversation.take_back(), options)
        elif line.startswith("/") and "\n" not in line:
            console.print(f"[dim]{escape(commands.run(line))}[/]", soft_wrap=True)
        elif line:
            _answer(conversation, line, options)
    except HeadraceError as error:
        error_console.print(f"[bold red]error:[/] {escape(error.message)}", soft_wrap=True)


def _answer(conversation: ChatHistory, question: str, options: _Options) -> None:
    """Prints an answer as it comes. Ctrl-C stops it, and the text so far stays in the conversation."""
    texts = conversation.ask(question)
    if options.as_json:
        said = "".join(texts)
        speed = asdict(conversation.speed) | {"tokens_per_second": conversation.speed.tokens_per_second}
        print_json({"question": question, "answer": said, "speed": speed})
        return
    is_stopped = False
    with AnswerView(console) as view:
        try:
            view.show(texts)
        except KeyboardInterrupt:
            is_stopped = True
            texts.close()
    if console.is_terminal and not options.is_quiet:
        _print_notes(conversation, is_stopped)


def _print_notes(conversation: ChatHistory, is_stopped: bool) -> None:
    speed, notes = conversation.speed, []
    if is_stopped:
        notes.append("stopped")
    if conversation.dropped_count:
        turns = "turn was" if conversation.dropped_count == 1 else f"{conversation.dropped_count} turns were"
        notes.append(f"the context was full: the oldest {turns} dropped")
    if speed.ttft_seconds is not None:
        notes.append(f"TTFT {speed.ttft_seconds * 1000:.0f} ms")
    if speed.tokens_per_second is not None:
        notes.append(f"{speed.token_count} tokens, {speed.tokens_per_second:.0f} tokens/s")
    if notes:
        console.print(f"[dim]{', '.join(notes)}[/]")
