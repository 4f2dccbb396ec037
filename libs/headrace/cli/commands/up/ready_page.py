"""Page that says where a platform is that has become ready, and what to try."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.cli.output import console
from headrace.cli.terminal.first_steps import examples
from headrace.cli.terminal.own_command import own_command, state_flag
from headrace.launch.platform_spec import ModelSource


class ReadyPage:
    """Prints addresses, examples and how to stop."""

    def __init__(self, state_dir: Path, key_count: int | None, since: float) -> None:
        """`key_count`: keys that are known; None where none is needed. `since`: time at which the start began, in
        seconds since 1970."""
        self._state_dir = state_dir
        self._flag = state_flag(state_dir)
        self._key_count = key_count
        self._since = since

    def print(self, platform: Mapping[str, Any], models: Sequence[ModelSource], *, in_background: bool) -> None:
        """Prints the page of a platform, as it is described, with an example for each of the models that are given."""
        console.print(f"\n[bold green]Ready[/] in {time.time() - self._since:.1f} s.")
        print_addresses(platform)
        if self._key_count is not None:
            console.print(f"  keys are needed: {self._key_count} known   [dim]HEADRACE_API_KEY=sk-…[/]")
        hint = "" if in_background else f"   [dim]{own_command()} logs{self._flag}[/]"
        console.print(f"  logs     {self._state_dir.expanduser().absolute() / 'logs'}{hint}", soft_wrap=True)
        if models:
            console.print(f"\n[dim]Try{'' if in_background else ', in another terminal'}:[/]")
        chat = f"{own_command()} chat{self._flag}"
        for line in examples(models, platform["http"], chat, needs_key=self._key_count is not None):
            console.print(f"  {line}", soft_wrap=True, markup=False)
        if not in_background:
            console.print("\n[dim]Ctrl-C stops everything.[/]")
            return
        console.print(
            f"\nRunning in the background (pid {platform['pid']}); it keeps running when this terminal is closed.",
            soft_wrap=True,
        )
        for word, meaning in (("status", "shows what runs"), ("logs -f", "shows its logs"), ("stop", "stops it")):
            command = f"{own_command()} {word:7}{self._flag}"
            console.print(f"  {command.rstrip():{len(command)}}   [dim]{meaning}[/]", soft_wrap=True)


def print_addresses(platform: Mapping[str, Any]) -> None:
    """Prints where a platform is reached, a line for each way."""
    console.print(f"  console  {platform['http']}   [dim]in a browser[/]", soft_wrap=True)
    console.print(f"  REST     {platform['http']}/v1\n  gRPC     {platform['grpc']}", soft_wrap=True)
    if platform.get("lan"):
        console.print(f"  LAN      {platform['lan']}/v1   [dim]for other machines[/]", soft_wrap=True)
