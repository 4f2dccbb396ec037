"""`headrace up`: runs the whole platform on this machine."""

import asyncio
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.commands.up.platform_flags import PlatformFlags
from headrace.cli.compiler_remedy import missing_kernels
from headrace.cli.key_choice import KeyChoice
from headrace.cli.output import console, print_json, warn
from headrace.cli.terminal.first_steps import examples
from headrace.storage.private_files import keep_files_private
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.platform import Platform
from headrace.supervisor.state import DEFAULT_FOLDER, StateFolder

_STYLES = {"ready": "green", "starting": "yellow", "restarting": "red", "stopped": "dim"}


_NO_PLATFORM_FLAGS = PlatformFlags()


def up(
    *models: str, flags: PlatformFlags = _NO_PLATFORM_FLAGS, json: Annotated[bool, Parameter(negative="")] = False
) -> None:
    """Runs the whole platform on this machine until Ctrl-C.

    Args:
        models: Folders with a Hugging Face checkpoint, GGUF files, hub ids, or names from the catalogue; NAME=SOURCE
            names one. Default: the bundled model, served as headrace-demo.
        flags: All else that it is started with.
        json: Print one JSON object per line; when ready, one with "event": "ready".
    """
    keep_files_private()
    flags.check()
    keys = flags.keys()
    options = flags.options(models, keys)
    if flags.engine in (None, "model") and (warning := missing_kernels()):
        warn(warning)
    with StateFolder(flags.state_dir) as state:
        asyncio.run(_run(options, state, _JsonView(keys) if json else _TerminalView(flags.state_dir, keys)))


async def _run(options: PlatformOptions, state: StateFolder, view: "_JsonView | _TerminalView") -> None:
    stopping = asyncio.Event()
    platform = Platform(options, state, view.on_change)
    _stop_on_signal(stopping, platform)
    try:
        with view:
            starting = asyncio.create_task(platform.start())
            stopped = asyncio.create_task(stopping.wait())
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                return
            starting.result()
        view.on_ready(platform)
        await stopping.wait()
    finally:
        view.on_stopping()
        await platform.stop()


def _stop_on_signal(stopping: asyncio.Event, platform: Platform) -> None:
    """Stops the platform in order at the first signal, and at once at a second."""

    def on_signal() -> None:
        if stopping.is_set():
            platform.kill()
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


class _JsonView:
    """Prints one JSON object per line. A reader that leaves does not end the platform."""

    def __init__(self, keys: KeyChoice) -> None:
        self._keys = keys
        self._states: dict[str, str] = {}
        self._progress: dict[str, str] = {}

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def on_change(self, platform: Platform) -> None:
        for process in platform.processes:
            name, state = process.spec.name, process.state
            if self._states.get(name) != state:
                self._states[name] = state
                self._tell({"event": "service", "name": name, "state": state, "pid": process.pid})
            if process.progress != self._progress.get(name, ""):
                self._progress[name] = process.progress
                self._tell({"event": "progress", "name": name, "text": process.progress})

    def on_ready(self, platform: Platform) -> None:
        keys = {} if self._keys.path is None else {"keys": self._keys.count}
        self._tell({"event": "ready"} | platform.describe() | keys)

    def on_stopping(self) -> None:
        self._tell({"event": "stopping"})

    @staticmethod
    def _tell(event: dict[str, Any]) -> None:
        try:
            print_json(event)
        except BrokenPipeError:
            # The rest of the buffer goes nowhere too; otherwise the interpreter complains at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _TerminalView:
    """Shows a live table during the start, then what to try."""

    def __init__(self, state_dir: Path, keys: KeyChoice) -> None:
        self._keys = keys
        self._state_flag = "" if state_dir == DEFAULT_FOLDER else f" --state-dir {state_dir}"
        self._live = Live(console=console, refresh_per_second=10, transient=False)
        self._started = time.monotonic()

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_change(self, platform: Platform) -> None:
        if self._live.is_started:
            self._live.update(_service_table(platform))

    def on_ready(self, platform: Platform) -> None:
        console.print(f"\n[bold green]Ready[/] in {time.monotonic() - self._started:.1f} s.")
        console.print(f"  console  {platform.http_url}   [dim]in a browser[/]")
        console.print(f"  REST     {platform.http_url}/v1\n  gRPC     {platform.grpc_address}")
        if platform.lan_url:
            console.print(f"  LAN      {platform.lan_url}/v1   [dim]for other machines[/]")
        if self._keys.path is not None:
            console.print(f"  keys are needed: {self._keys.count} known   [dim]HEADRACE_API_KEY=sk-…[/]")
        console.print(
            f"  logs     {platform.logs_folder}   [dim]{_own_command()} logs{self._state_flag}[/]", soft_wrap=True
        )
        console.print("\n[dim]Try, in another terminal:[/]")
        chat = f"{_own_command()} chat{self._state_flag}"
        for line in examples(platform.models, platform.http_url, chat, needs_key=self._keys.path is not None):
            console.print(f"  {line}", soft_wrap=True, markup=False)
        console.print("\n[dim]Ctrl-C stops everything.[/]")

    def on_stopping(self) -> None:
        console.print("[dim]Stopping: running requests may end first …[/]")


def _own_command() -> str:
    """Returns the command line that runs this program from the current folder."""
    if shutil.which("headrace"):
        return "headrace"
    path = Path(sys.argv[0]).absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _service_table(platform: Platform) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("service", "state", "pid", "address", "model"):
        table.add_column(title)
    for process in platform.processes:
        is_starting = process.state == "starting" and process.progress
        state = Text(process.progress if is_starting else process.state, style=_STYLES[process.state])
        spec = process.spec
        table.add_row(spec.name, state, str(process.pid or ""), spec.address(), spec.model)
    return table
