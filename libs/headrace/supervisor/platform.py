"""Platform of one machine: which processes there are, in which order they start and stop."""

import asyncio
import contextlib
import os
import ssl
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2

from headrace.domain.deadline import Deadline
from headrace.errors import ConfigError, Unavailable
from headrace.lifecycle.cancel_and_wait import cancel_and_wait
from headrace.rpc.channel import Channel
from headrace.rpc.health import answers, is_serving
from headrace.settings.flags import as_flags
from headrace.supervisor.files.log_rotation import keep_rotating, old_log
from headrace.supervisor.freeze import QUESTION_SECONDS, AnswerPatience
from headrace.supervisor.lan_address import is_loopback_address, joined, lan_host, near_host
from headrace.supervisor.model_source import ModelSource
from headrace.supervisor.nats_server import LocalNats
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.ports import HOST, PortReservation
from headrace.supervisor.process import PROBE_INTERVAL, ProcessSpec, SupervisedProcess
from headrace.supervisor.security.platform_certificates import PlatformCertificates
from headrace.supervisor.start_watch import StartWatch
from headrace.supervisor.state import FILES_FOLDER, USAGE_FOLDER, StateFolder
from headrace.supervisor.worker_arguments import shared_worker_arguments, worker_arguments

PROBE_TIMEOUT = 1.0
ANSWERS_OF_SEVERAL = 8
"""Answers in a row, for each further gateway, after which all have probably answered."""
STOP_SECONDS = {"gateway": 6.0, "worker": 5.0}
"""Seconds that a service has to end: a gateway for its open requests, a worker for the processes that compute for it.
All others have two."""
MAX_START_SECONDS = 86400.0
"""Maximum seconds of a start, with or without progress."""


class Platform:
    """Starts all processes, keeps them running, and stops them.

    Start: NATS first, because its port is picked then; all others at once, because each waits for the services it
    needs. Stop: the gateways first, so that running requests end; then the services that they called; NATS last."""

    def __init__(
        self, options: PlatformOptions, state: StateFolder, on_change: Callable[["Platform"], None] = lambda _: None
    ) -> None:
        self._options = options
        self._state = state
        self._listener = on_change
        self._processes: dict[str, SupervisedProcess] = {}
        self._channels: list[Channel] = []
        self._credential = state.make_credential()
        self._certificates = PlatformCertificates(options.certificates)
        known = self._certificates.nats_folder, self._certificates.nats_login
        self._nats = None if options.nats_url else LocalNats(state.path / "nats", self._credential, *known)
        self._rotation: asyncio.Task[None] | None = None
        self._started = time.time()
        self._ports: dict[str, PortReservation] = {}
        self._reserve("http", options.http_port, options.host, listens=True)
        self._reserve("grpc", options.grpc_port, options.host)
        self._gateways = _names("gateway", options.gateways)
        self._tokenizers = _names("tokenizer", options.tokenizers)
        self._schedulers = _names("scheduler", options.schedulers)
        workers = [name for name, _, _ in self._workers()]
        self._caches = _names("cache", options.caches)
        for name in (*self._gateways, *self._tokenizers, *self._schedulers, *self._caches, *workers):
            self._reserve(name, 0)

    @property
    def http_url(self) -> str:
        """URL of the REST bridge, for this machine."""
        return f"{self._scheme}://{joined(near_host(self._options.host), self._ports['http'].port)}"

    @property
    def lan_url(self) -> str | None:
        """URL of the REST bridge, for other machines; None if they do not reach it."""
        host = self._options.host
        return (
            None
            if is_loopback_address(host)
            else f"{self._scheme}://{joined(lan_host(host), self._ports['http'].port)}"
        )

    @property
    def _scheme(self) -> str:
        return "http" if self._options.public_certificate is None else "https"

    @property
    def grpc_address(self) -> str:
        """Address of the gRPC API, for this machine."""
        return joined(near_host(self._options.host), self._ports["grpc"].port)

    @property
    def nats_url(self) -> str:
        """URL at which services find NATS, with the secret that it asks for."""
        return self._options.nats_url or (self._nats.url if self._nats else "")

    @property
    def models(self) -> Sequence[ModelSource]:
        """The models that are served."""
        return self._options.models

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
            **self._certificates.described(),
            **({} if authority is None else {"authority": str(authority)}),
            "models": [model.name for model in self._options.models]
            + [adapter for model in self._options.models for adapter in model.adapters],
            "pid": os.getpid(),
            "started": self._started,
            "services": [_describe(process) for process in self._processes.values()],
        }

    async def start(self) -> None:
        """Starts all processes and returns once they are ready, however long they take while they make progress. Raises
        HeadraceError."""
        watch = StartWatch(lambda: self.processes, self._on_change)
        silence = asyncio.create_task(watch.until_silent(self._options.start_silence_seconds))
        starting = asyncio.create_task(self._start_all())
        try:
            await asyncio.wait({starting, silence}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                raise self._silent(silence.result())
            starting.result()
        finally:
            await cancel_and_wait([starting, silence])
        logs = [process.spec.log_path for process in self.processes]
        self._rotation = asyncio.create_task(keep_rotating(logs), name="log-rotation")

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
        if self._nats is not None:
            self._add(self._nats_spec(self._nats))
            await self._processes["nats"].wait_ready(deadline)
            # When restarted, it must listen on the port that it picked.
            self._processes["nats"].spec = self._nats_spec(self._nats)
        for spec in self._service_specs():
            self._add(spec)
        await asyncio.gather(*(process.wait_ready(deadline) for process in self.processes))
        await self._wait_until_answering(deadline)

    async def stop(self) -> None:
        """Stops all processes in order."""
        if self._rotation is not None:
            await cancel_and_wait([self._rotation])
        # Closed before the gateways end, so that no client waits for one that does not come.
        self._ports["http"].close()
        others = self._processes.keys() - {*self._gateways, "nats"}
        for names in (self._gateways, others, ["nats"]):
            await asyncio.gather(*(self._processes[name].stop() for name in names if name in self._processes))
        if self._nats is not None:
            self._nats.close()
        for channel in self._channels:
            await channel.close()
        for reservation in self._ports.values():
            reservation.close()

    def kill(self) -> None:
        """Kills all processes at once, for the impatient."""
        for process in self.processes:
            process.kill()

    async def _wait_until_answering(self, deadline: Deadline) -> None:
        """Waits until the gateways have met the services, which are up. Asks several times: chance picks a gateway."""
        trust = _trust_in(self._options.public_certificate)
        answer_count = 0
        while answer_count < 1 + ANSWERS_OF_SEVERAL * (len(self._gateways) - 1):
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
                response = await client.get(f"{self.http_url}/ready", timeout=PROBE_TIMEOUT)
                wanted = {model.name for model in self._options.models}
                return response.status_code == httpx2.codes.OK and wanted <= set(response.json()["models"])
        return False

    def _reserve(self, name: str, port: int, host: str = HOST, *, listens: bool = False) -> None:
        try:
            self._ports[name] = PortReservation(port, name, listens, host)
        except ConfigError:
            for reservation in self._ports.values():
                reservation.close()
            raise

    def _add(self, spec: ProcessSpec) -> None:
        process = SupervisedProcess(spec, self._on_change)
        self._processes[spec.name] = process
        process.start()

    def _on_change(self) -> None:
        # A full disk must not end the supervision: `ps` is out of date then, the platform is not.
        with contextlib.suppress(OSError):
            self._state.write(self.describe())
        self._listener(self)

    def _worker_specs(self, address: Mapping[str, str]) -> list[ProcessSpec]:
        """Makes a worker for each model and replica, or for all models together."""
        if not self._options.shared_worker:
            return [
                self._service("worker", name, address[name], worker_arguments(model, self._options, role), model.name)
                for name, model, role in self._workers()
            ]
        names = ", ".join(model.name for model in self._options.models)
        arguments = shared_worker_arguments(self._options)
        return [self._service("worker", name, address[name], arguments, names) for name, _, _ in self._workers()]

    def _workers(self) -> list[tuple[str, Any, str]]:
        """Name, model and role of each worker."""
        options = self._options
        if options.shared_worker:
            return [(f"worker-{index}", None, "") for index in range(options.replicas)]
        usual = "decode" if options.prefill_workers else ""
        parts = [(model, usual) for model in options.models for _ in range(options.replicas)]
        parts += [(model, "prefill") for model in options.models for _ in range(options.prefill_workers)]
        return [(f"worker-{index}", model, role) for index, (model, role) in enumerate(parts)]

    def _nats_spec(self, nats: LocalNats) -> ProcessSpec:
        return ProcessSpec(
            name="nats",
            command=nats.command(-1 if nats.port is None else nats.port),
            log_path=self._fresh_log("nats"),
            is_ready=lambda: asyncio.ensure_future(nats.is_ready()),
            answers=nats.is_ready,
            address=lambda: nats.address,
            environment=nats.environment,
            patience=AnswerPatience(self._options.frozen_seconds),
        )

    def _service_specs(self) -> list[ProcessSpec]:
        address = {name: reservation.address for name, reservation in self._ports.items()}
        models = ",".join(f"{model.name}={model.folder}" for model in self._options.models)
        specs = [
            *(self._service("tokenizer", name, address[name], ["--models", models]) for name in self._tokenizers),
            *(self._service("scheduler", name, address[name], self._scheduling(name)) for name in self._schedulers),
            *(self._service("cache", name, address[name], self._caching(name)) for name in self._caches),
        ]
        specs += self._worker_specs(address)
        http_socket = self._ports["http"].descriptor
        gateway = ["--http-address", address["http"], "--http-socket", str(http_socket)]
        gateway += as_flags({} if self._options.strict is None else {"strict": self._options.strict})
        gateway += ["--tokenizer-addresses", ",".join(address[name] for name in self._tokenizers)]
        gateway += ["--scheduler-addresses", ",".join(address[name] for name in self._schedulers)]
        gateway += ["--cache-addresses", self._cache_addresses()]
        gateway += ["--default", f"model_order={','.join(model.name for model in self._options.models)}"]
        gateway += as_flags({} if self._options.keys_file is None else {"keys_file": self._options.keys_file})
        gateway += ["--default", f"usage_folder={self._state.path / USAGE_FOLDER}"]
        gateway += ["--default", f"files_folder={self._state.path / FILES_FOLDER}"]
        for name in self._gateways:
            arguments = [*gateway, "--probe-address", address[name], *self._workers_file(name)]
            spec = self._service("gateway", name, address["grpc"], arguments, probe_address=address[name])
            specs.append(replace(spec, descriptors=[http_socket]))
        return specs

    def _scheduling(self, name: str) -> Sequence[str]:
        return ["--cache-addresses", self._cache_addresses(), *self._workers_file(name)]

    def _caching(self, name: str) -> Sequence[str]:
        return ["--folder", str(self._state.path / name)]

    def _cache_addresses(self) -> str:
        return ",".join(self._ports[name].address for name in self._caches)

    def _workers_file(self, name: str) -> list[str]:
        """Arguments by which a service keeps the addresses of workers over a restart."""
        return ["--workers-file", str(self._state.path / "workers" / f"{name}.json")]

    def _environment(self, kind: str) -> dict[str, str]:
        """Returns secrets, which other users could read from the command line; and the size of torch's pool, which is
        made when torch is imported, before a worker reads its settings."""
        prefix = f"HEADRACE_{kind.upper()}"
        threads = self._options.model_options.get("thread_count") or self._options.thread_count
        secrets = {f"{prefix}_CREDENTIAL": self._credential, f"{prefix}_NATS_URL": self.nats_url}
        return secrets | ({"OMP_NUM_THREADS": str(threads)} if kind == "worker" and threads else {})

    def _service(
        self, kind: str, name: str, address: str, arguments: Sequence[str], model: str = "", probe_address: str = ""
    ) -> ProcessSpec:
        common = ["--service-id", name, "--listen-address", address, "--instance", str(_number(name))]
        common += as_flags(self._options.service_options)
        if self._options.config_file is not None:
            common += ["--config", str(self._options.config_file)]
        common += self._certificates.arguments(kind)
        channel = self._certificates.open_channel(probe_address or address, kind)
        self._channels.append(channel)
        return ProcessSpec(
            name=name,
            # -P: files of the current folder are no modules of a service.
            command=[self._python(kind), "-P", "-m", f"headrace.{kind}", *common, *arguments],
            log_path=self._fresh_log(name),
            is_ready=lambda: asyncio.ensure_future(is_serving(channel, PROBE_TIMEOUT)),
            answers=lambda: answers(channel, QUESTION_SECONDS),
            address=lambda: address,
            environment=self._environment(kind),
            model=model,
            stop_seconds=STOP_SECONDS.get(kind, 2.0),
            patience=AnswerPatience(self._options.frozen_seconds),
        )

    def _python(self, kind: str) -> str:
        chosen = self._options.worker_python if kind == "worker" else None
        return sys.executable if chosen is None else str(chosen)

    def _fresh_log(self, name: str) -> Any:
        path = self._state.log_path(name)
        if name not in self._processes:
            if path.exists() and path.stat().st_size:
                path.replace(old_log(path))
            path.write_bytes(b"")
        return path


def _names(kind: str, count: int) -> list[str]:
    """Names the processes of a kind. The first is called like the kind, as where there is only one."""
    return [kind, *(f"{kind}-{index}" for index in range(1, count))]


def _number(name: str) -> int:
    """Returns the number of a process among those of its kind, which its name ends with unless it is 0."""
    return int(name.partition("-")[2] or 0)


def _describe(process: SupervisedProcess) -> dict[str, Any]:
    spec = process.spec
    described = {
        "name": spec.name,
        "pid": process.pid,
        "state": process.state,
        "address": spec.address(),
        "restarts": process.restarts,
        "log": str(spec.log_path),
    }
    return described | ({"model": spec.model} if spec.model else {})


def _trust_in(certificate: Path | None) -> ssl.SSLContext:
    """Returns how a probe of our own gateways checks who answers: by their certificate, whatever name it is for."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    return context
