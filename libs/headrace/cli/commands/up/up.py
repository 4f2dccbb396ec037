"""`headrace up`: runs the whole platform on this machine."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.commands.up.background_start import BACKGROUND_FLAG, BackgroundStart
from headrace.cli.commands.up.detached import follow_start
from headrace.cli.commands.up.json_view import JsonView
from headrace.cli.commands.up.line_view import LineView
from headrace.cli.commands.up.live_view import LiveView
from headrace.cli.commands.up.platform_flags import PlatformFlags
from headrace.cli.commands.up.ready_page import ReadyPage
from headrace.cli.commands.up.supervisor_log import SupervisorLog
from headrace.cli.commands.up.view import View
from headrace.cli.compiler_remedy import missing_kernels
from headrace.cli.output import console, warn
from headrace.launch.roster import SERVICE_ROLES
from headrace.launch.worker_bounds import WorkerBounds
from headrace.lifecycle.cancel_and_wait import cancel_and_wait
from headrace.served.served_file import FILE_NAME, ServedFile
from headrace.storage.private_files import keep_files_private
from headrace.supervisor.changes.model_changes import ModelChanges
from headrace.supervisor.changes.served_sources import ServedSources
from headrace.supervisor.changes.start import with_loaded
from headrace.supervisor.changes.unfailing import keep_doing
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.platform import Platform
from headrace.supervisor.scaling.known_demand import KnownDemand
from headrace.supervisor.scaling.worker_scaling import WorkerScaling
from headrace.supervisor.spawning.fork_spawner import ForkSpawner
from headrace.supervisor.spawning.spawner import Spawner
from headrace.supervisor.state import SUPERVISOR_LOG, StateFolder
from headrace.supervisor.system.process_age import process_age

_NO_PLATFORM_FLAGS = PlatformFlags()


def up(
    *models: str,
    flags: PlatformFlags = _NO_PLATFORM_FLAGS,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative="")] = False,
    in_background: Annotated[bool, Parameter(name=BACKGROUND_FLAG, negative="", show=False)] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Runs the whole platform on this machine until Ctrl-C, or until headrace stop.

    Args:
        models: Folders with a Hugging Face checkpoint, GGUF files, hub ids, or names from the catalogue; NAME=SOURCE
            names one. Default: the bundled model, served as headrace-demo.
        flags: All else that it is started with.
        detach: Start in the background, and return once it is ready. headrace status, logs and stop are about it.
        in_background: Report to the command that has started this one.
        json: Print one JSON object per line; when ready, one with "event": "ready".
    """
    began = time.time() - process_age()
    keep_files_private()
    flags.check()
    keys = flags.keys()
    options = flags.options(models, keys)
    if not in_background and flags.engine in (None, "model") and (warning := missing_kernels()):
        warn(warning)
    page = ReadyPage(flags.state_dir, None if keys.path is None else keys.count, began)
    if detach:
        described = follow_start(BackgroundStart(sys.argv[2:]), as_json=json)
        if not json:
            page.print(described, options.platform.models, in_background=True)
        return
    # While this process has one thread and nothing open.
    spawner = ForkSpawner([f"headrace.{role}" for role in SERVICE_ROLES])
    view: View = JsonView(keys) if json else LiveView(page) if console.is_terminal else LineView(page)
    with (
        contextlib.closing(spawner),
        StateFolder(flags.state_dir) as state,
        SupervisorLog(state.log_path(SUPERVISOR_LOG)) as log,
    ):
        if in_background:
            log.take_stderr()
        sources, file = ServedSources(options.platform.models), ServedFile(state.path / FILE_NAME)
        platform = with_loaded(options.platform, sources, file, are_chosen=bool(models))
        if plan := flags.memory_plan(platform):
            platform = plan.applied(platform)
            view.on_memory_plan(plan)
        options = replace(options, platform=platform)
        asyncio.run(_run(options, state, spawner, view, log, partial(ModelChanges, sources=sources, file=file)))


async def _run(
    options: PlatformOptions,
    state: StateFolder,
    spawner: Spawner,
    view: View,
    log: SupervisorLog,
    follow: Callable[[Platform], ModelChanges],
) -> None:
    stopping = asyncio.Event()

    def on_change(platform: Platform) -> None:
        log.write_changes(platform)
        view.on_change(platform)

    platform = Platform(options, state, spawner, on_change)
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
        log.say("the platform is ready", http=platform.http_url)
        view.on_ready(platform)
        following = [asyncio.create_task(keep_doing(follow(platform).watch, "following what is served", log.say))]
        if options.platform.worker_bounds is not None:
            scaling = partial(_scale, platform, options.platform.worker_bounds)
            following.append(asyncio.create_task(keep_doing(scaling, "scaling", log.say)))
        await stopping.wait()
        await cancel_and_wait(following)
    finally:
        log.say("stopping")
        try:
            # A terminal that has been closed takes no text.
            with contextlib.suppress(OSError):
                view.on_stopping()
        finally:
            await platform.stop()


async def _scale(platform: Platform, bounds: WorkerBounds) -> None:
    await WorkerScaling(platform, bounds, KnownDemand(platform.open_channels("scheduler"))).watch()


def _stop_on_signal(stopping: asyncio.Event, platform: Platform) -> None:
    """Stops the platform in order at the first signal, and at once at a second."""

    def on_signal() -> None:
        if stopping.is_set():
            platform.kill()
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # `nohup` has SIGHUP ignored already.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, on_signal)
