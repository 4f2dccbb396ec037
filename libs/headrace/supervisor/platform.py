"""Platform of one machine: carries out its plan. Starts the processes, watches them, and stops them in order."""

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx2

from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError, Unavailable
from headrace.launch.plan import READY_PATH, plan
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.process_spec import ProcessSpec
from headrace.launch.roster import NATS_NAME, number_of
from headrace.launch.stop_order import stop_order
from headrace.lifecycle.cancel_and_wait import cancel_and_wait
from headrace.rpc.channel import Channel
from headrace.rpc.health import answers, is_serving
from headrace.service_clients.worker_pins import pin_everywhere
from headrace.supervisor.files.log_rotation import keep_rotating, old_log
from headrace.supervisor.freeze import QUESTION_SECONDS, AnswerPatience
from headrace.supervisor.local_site import LocalSite
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.process import PROBE_INTERVAL, AliveQuestion, LocalProcess, ReadyQuestion, SupervisedProcess
from headrace.supervisor.spawning.spawner import Spawner
from headrace.supervisor.start_watch import StartWatch
from headrace.supervisor.state import SUPERVISOR_LOG, StateFolder

PROBE_TIMEOUT = 1.0
ANSWERS_OF_SEVERAL = 8
"""Answers in a row, for each further gateway, after which all have probably answered."""
LEAVE_SECONDS = 10.0
"""Seconds that a worker has to end which is served no longer: its requests move, or end."""
MAX_START_SECONDS = 86400.0
"""Maximum seconds of a start, with or without progress."""


class Platform:
    """Starts all processes of a plan, keeps them running, and stops them.

    Start: NATS first, because its port is picked then; all others at once, because each waits for the services it
    needs. Stop: the gateways first, so that running requests end; then the services that they called; NATS last."""

    def __init__(
        self,
        options: PlatformOptions,
        state: StateFolder,
        spawner: Spawner,
        on_change: Callable[["Platform"], None] = lambda _: None,
    ) -> None:
        self._options = options
        self._spawner = spawner
        self._state = state
        self._listener = on_change
        self._processes: dict[str, SupervisedProcess] = {}
        self._planned: list[ProcessSpec] = []
        self._channels: dict[str, Channel] = {}
        """Channels by which processes are asked for their health, by name."""
        self._leaving: dict[str, asyncio.Task[None]] = {}
        """Workers that are being stopped, by name."""
        self._is_changing = False
        self._started = time.time()
        self._phase: Literal["starting", "ready", "stopping"] = "starting"
        self._rotation: asyncio.Task[None] | None = None
        self._site = LocalSite(options, state)

    @property
    def http_url(self) -> str:
        """URL of the REST bridge, for this machine."""
        return self._site.http_url

    @property
    def lan_url(self) -> str | None:
        """URL of the REST bridge, for other machines; None if they do not reach it."""
        return self._site.lan_url

    @property
    def grpc_address(self) -> str:
        """Address of the gRPC API, for this machine."""
        return self._site.grpc_address

    @property
    def nats_url(self) -> str:
        """URL at which services find NATS, with the secret that it asks for."""
        return self._site.nats_url

    @property
    def spec(self) -> PlatformSpec:
        """Models that it serves now, and its processes."""
        return self._options.platform

    @property
    def models(self) -> Sequence[ModelSource]:
        """The models that are served."""
        return self._options.platform.models

    @property
    def leaving_numbers(self) -> set[int]:
        """Numbers of workers that are being stopped."""
        return {number_of(name) for name in self._leaving}

    def open_channels(self, role: str) -> list[Channel]:
        """Opens a channel to each process of a role. The caller closes them."""
        return [self._site.open_channel(each.health.address, role) for each in self._planned if each.role == role]

    @property
    def gateway_starts(self) -> int:
        """Number that changes with every start of a gateway."""
        return sum(self._processes[each.name].restarts for each in self._planned if each.role == "gateway")

    @property
    def logs_folder(self) -> Path:
        """Folder of the services' logs."""
        return self._state.log_path("gateway").parent

    @property
    def processes(self) -> list[SupervisedProcess]:
        return list(self._processes.values())

    def describe(self) -> dict[str, Any]:
        """Describes the running platform, for `ps`, for the ready line and for scripts."""
        authority = self._options.public_certificate
        return {
            "http": self.http_url,
            **({"lan": self.lan_url} if self.lan_url else {}),
            "grpc": self.grpc_address,
            "nats": f"nats://{self.nats_url.rpartition('://')[2].rpartition('@')[2]}",
            **self._site.certificates.described(),
            **({} if authority is None else {"authority": str(authority)}),
            "state": self._phase,
            "models": [model.name for model in self.models]
            + [adapter for model in self.models for adapter in model.adapters],
            "pid": os.getpid(),
            "started": self._started,
            "services": [_describe(process) for process in self._processes.values()],
        }

    async def start(self) -> None:
        """Starts all processes and returns once they are ready, however long they take while they make progress. Raises
        HeadraceError."""
        await self._watched(self._start_all())
        self._phase = "ready"
        self._on_change()
        logs = [*(process.spec.log_path for process in self.processes), self._state.log_path(SUPERVISOR_LOG)]
        self._rotation = asyncio.create_task(keep_rotating(logs), name="log-rotation")

    async def _watched(self, start: Coroutine[Any, Any, None]) -> None:
        """Waits for a start as long as it makes progress. Raises HeadraceError."""
        watch = StartWatch(lambda: self.processes, self._on_change)
        silence = asyncio.create_task(watch.until_silent(self._options.start_silence_seconds))
        starting = asyncio.create_task(start)
        try:
            await asyncio.wait({starting, silence}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                raise self._silent(silence.result())
            starting.result()
        finally:
            await cancel_and_wait([starting, silence])

    def _silent(self, waiting: Sequence[SupervisedProcess]) -> Unavailable:
        seconds = self._options.start_silence_seconds
        silent = waiting or [self._processes["gateway"]]
        names = ", ".join(process.spec.name for process in silent)
        log, last_line = silent[0].spec.log_path, silent[0].last_line()
        said = f"the log {log} ends with: {last_line}" if last_line else f"nothing was logged to {log}"
        return Unavailable(
            f"{names} made no progress for {seconds:g} s; {said}. "
            "If it needs more time, start with --start-silence-seconds"
        )

    async def _start_all(self) -> None:
        deadline = Deadline.after(MAX_START_SECONDS)
        self._planned = self.plan()
        if self._site.nats is not None:
            self._add(next(planned for planned in self._planned if planned.name == NATS_NAME))
            await self._processes[NATS_NAME].wait_ready(deadline)
        # Again, with the port that NATS picked: services connect there, and a restarted server listens there.
        self._replan()
        await self._wait_ready(self._processes, deadline)
        await self._wait_until_answering(deadline)

    async def _wait_ready(self, names: Iterable[str], deadline: Deadline) -> None:
        await asyncio.gather(*(self._processes[name].wait_ready(deadline) for name in names))

    async def serve(self, models: Sequence[ModelSource]) -> None:
        """Serves other models from now on. Returns once it does. Raises HeadraceError, and serves what it did before
        then."""
        before, spec = self._options, replace(self._options.platform, models=models)
        self._options = replace(self._options, platform=spec)
        self._is_changing = True
        try:
            await asyncio.gather(*self._leaving.values())
            self._site.admit(spec)
            await self._change(Deadline.after(MAX_START_SECONDS))
        except HeadraceError:
            self._options = before
            self._site.admit(before.platform)
            await self._change(Deadline.after(MAX_START_SECONDS))
            raise
        finally:
            self._is_changing = False

    def resize(self, models: Sequence[ModelSource]) -> bool:
        """Begins to have the workers that models say, which are served already: new ones start, others move their
        requests and end. Returns whether it does: not while what is served changes."""
        if self._is_changing or self._phase != "ready":
            return False
        spec = replace(self._options.platform, models=models)
        self._options = replace(self._options, platform=spec)
        self._site.admit(spec)
        planned = self._replan()
        for name in self._processes.keys() - {each.name for each in planned}:
            self._leaving[name] = asyncio.create_task(self._let_go(name), name=f"stop-{name}")
        self._on_change()
        return True

    async def pin(self, model: str, *, is_pinned: bool) -> None:
        """Has a model's workers keep it awake, or let it take turns: now, and whenever they start. Raises
        HeadraceError."""
        workers = [each for each in self._planned if each.role == "worker" and model in each.model.split(", ")]
        channels = [partial(self._site.open_channel, each.health.address, each.role) for each in workers]
        await pin_everywhere(channels, model, is_pinned=is_pinned)
        others = [name for name in self.spec.pinned if name != model]
        spec = replace(self.spec, pinned=[*others, model] if is_pinned else others)
        self._options = replace(self._options, platform=spec)
        self._replan()

    def _replan(self) -> list[ProcessSpec]:
        """Plans the processes again, and starts the new ones."""
        planned = self.plan()
        for each in planned:
            self._add(each)
        self._keep(planned)
        return planned

    async def _let_go(self, name: str) -> None:
        """Stops a process that is planned no longer."""
        await self._processes.pop(name).stop(LEAVE_SECONDS)
        del self._leaving[name]
        await self._channels.pop(name).close()
        self._on_change()

    async def _change(self, deadline: Deadline) -> None:
        """Starts what the plan has by now and did not have, then stops what it has no longer. Tokenizers are replaced
        one after the other, so that one answers at any time."""
        former, planned = {each.name: each for each in self._planned}, self.plan()
        names = {each.name for each in planned}
        for each in planned:
            self._add(each)
        await self._watched(self._wait_ready(names - former.keys(), deadline))
        leaving = [process for name, process in self._processes.items() if name not in names]
        await asyncio.gather(*(process.stop(LEAVE_SECONDS) for process in leaving))
        self._processes = {name: process for name, process in self._processes.items() if name in names}
        self._keep(planned)
        for each in planned:
            if each.role == "tokenizer" and each.settings != former[each.name].settings:
                await self._processes[each.name].replace(deadline)
        await self._wait_until_answering(deadline)
        self._on_change()

    async def stop(self) -> None:
        """Stops all processes in order."""
        self._phase = "stopping"
        self._on_change()
        if self._rotation is not None:
            await cancel_and_wait([self._rotation])
        # Before the gateways end.
        self._site.refuse_clients()
        planned = {each.name for each in self._planned}
        # A change of what is served may be cut off by the stop.
        for names in [[name for name in self._processes if name not in planned], *stop_order(self._planned)]:
            await asyncio.gather(*(self._processes[name].stop() for name in names if name in self._processes))
        await asyncio.gather(*self._leaving.values())
        for channel in self._channels.values():
            await channel.close()
        self._spawner.close()
        self._site.close()

    def kill(self) -> None:
        """Kills all processes at once, for the impatient."""
        for process in self.processes:
            process.kill()

    async def _wait_until_answering(self, deadline: Deadline) -> None:
        """Waits until the gateways have met the services, which are up. Asks several times: chance picks a gateway."""
        trust = _trust_in(self._options.public_certificate)
        answer_count = 0
        while answer_count < 1 + ANSWERS_OF_SEVERAL * (self._options.platform.gateways - 1):
            if await self._is_answering(trust):
                answer_count += 1
                continue
            if deadline.expired:
                raise Unavailable(f"the gateway is not ready in time; its log: {self._state.log_path('gateway')}")
            answer_count = 0
            await asyncio.sleep(PROBE_INTERVAL)

    async def _is_answering(self, trust: ssl.SSLContext) -> bool:
        """Whether a gateway, on a new connection, says that it can answer requests for every model."""
        with contextlib.suppress(httpx2.HTTPError, ValueError):
            # It asks this machine, whatever proxy the environment names.
            async with httpx2.AsyncClient(verify=trust, trust_env=False) as client:
                response = await client.get(f"{self.http_url}{READY_PATH}", timeout=PROBE_TIMEOUT)
                wanted = {model.name for model in self.models if self.spec.replicas_of(model)}
                return response.status_code == httpx2.codes.OK and wanted <= set(response.json()["models"])
        return False

    def _add(self, planned: ProcessSpec) -> None:
        """Starts a process. One that runs already is only planned again where its plan is new: it is started so when
        it ends."""
        known = self._processes.get(planned.name)
        if known is not None and planned in self._planned:
            return
        local = self._local(planned)
        if known is not None:
            known.spec = local
            return
        process = SupervisedProcess(local, self._spawner, self._on_change)
        self._processes[planned.name] = process
        process.start()

    def _keep(self, planned: list[ProcessSpec]) -> None:
        """Notes the plan that is carried out."""
        self._planned = planned
        self._state.write_starts({name: process.spec.start for name, process in self._processes.items()})

    def _on_change(self) -> None:
        # A full disk must not end the supervision: `ps` is out of date then, the platform is not.
        with contextlib.suppress(OSError):
            self._state.write(self.describe())
        self._listener(self)

    def plan(self) -> list[ProcessSpec]:
        """Plans the processes. Raises ConfigError."""
        return plan(self._options.platform, self._site.describe())

    def _local(self, planned: ProcessSpec) -> LocalProcess:
        """Adds to a planned process what it needs on this machine: its start, and its answers."""
        is_ready, answering, address = self._questions(planned)
        return LocalProcess(
            name=planned.name,
            start=self._site.start_of(planned, self._fresh_log(planned.name)),
            is_ready=is_ready,
            answers=answering,
            address=address,
            model=planned.model,
            stop_seconds=planned.stop_seconds,
            patience=AnswerPatience(self._options.frozen_seconds),
        )

    def _questions(self, planned: ProcessSpec) -> tuple[ReadyQuestion, AliveQuestion, Callable[[], str]]:
        """Returns what asks a process whether it is ready, whether it is alive, and where it is."""
        nats = self._site.nats
        if nats is not None and planned.health.protocol == "nats":
            return lambda: asyncio.ensure_future(nats.is_ready()), nats.is_ready, lambda: nats.address
        channel = self._channels.get(planned.name)
        if channel is None:
            channel = self._site.certificates.open_channel(planned.health.address, planned.role)
            self._channels[planned.name] = channel
        return (
            lambda: asyncio.ensure_future(is_serving(channel, PROBE_TIMEOUT)),
            lambda: answers(channel, QUESTION_SECONDS),
            lambda: str(planned.settings["listen_address"]),
        )

    def _fresh_log(self, name: str) -> Any:
        path = self._state.log_path(name)
        if name not in self._processes:
            if path.exists() and path.stat().st_size:
                path.replace(old_log(path))
            path.write_bytes(b"")
        return path


def _describe(process: SupervisedProcess) -> dict[str, Any]:
    spec = process.spec
    described = {
        "name": spec.name,
        "pid": process.pid,
        "birth": process.identity.birth if process.identity else "",
        "started": process.started,
        "state": process.state,
        "address": spec.address(),
        "restarts": process.restarts,
        "log": str(spec.log_path),
    }
    return described | ({"model": spec.model} if spec.model else {})


def _trust_in(certificate: Path | None) -> ssl.SSLContext:
    """Returns the TLS context of a probe, which trusts the gateways' certificate whatever name it is for."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    return context
