"""View of a platform for people at a terminal."""

from collections.abc import Sequence

from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.commands.up.memory_plan import MemoryPlan
from headrace.cli.commands.up.ready_page import ReadyPage
from headrace.cli.output import console
from headrace.cli.terminal.state_styles import STATE_STYLES
from headrace.launch.platform_spec import ModelSource
from headrace.supervisor.platform import Platform

STOPPING = "[dim]Stopping: finishing running requests …[/]"
GIVEN_UP = "[dim]Stopping what was started …[/]"


class LiveView:
    """Shows a live table during the start, then what to try."""

    def __init__(self, page: ReadyPage) -> None:
        self._page = page
        self._live = Live(console=console, refresh_per_second=10, transient=False)
        self._was_ready = False

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_memory_plan(self, plan: MemoryPlan) -> None:
        console.print(plan.text(), soft_wrap=True, markup=False)

    def on_change(self, platform: Platform) -> None:
        if self._live.is_started:
            self._live.update(_service_table(platform))

    def on_ready(self, platform: Platform) -> None:
        self._was_ready = True
        self._page.print(platform.describe(), platform.models, in_background=False)

    def on_stopping(self) -> None:
        console.print(STOPPING if self._was_ready else GIVEN_UP)


def _service_table(platform: Platform) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("service", "state", "pid", "address", "model"):
        table.add_column(title)
    for process in platform.processes:
        is_starting = process.state == "starting" and process.progress
        state = Text(process.progress if is_starting else process.state, style=STATE_STYLES[process.state])
        spec = process.spec
        models = Text(_with_adapters(spec.model, platform.models))
        table.add_row(spec.name, state, str(process.pid or ""), spec.address(), models)
    return table


def _with_adapters(names: str, models: Sequence[ModelSource]) -> str:
    """Returns the names of a worker's models, each followed by those of its adapters: `chat + tuned, other`."""
    adapters = {model.name: model.adapters for model in models}
    return ", ".join(" + ".join([name, *adapters.get(name, ())]) for name in names.split(", "))
