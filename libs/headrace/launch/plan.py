"""Plan of a platform: each of its processes, what it is given, and which others it needs.

A function of its arguments alone: it looks at no clock, file, socket or process, so that every launcher gets the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.launch.platform_spec import PlatformSpec
from headrace.launch.process_spec import HealthCheck, PlannedPort, ProcessSpec, variable_of
from headrace.launch.roster import NATS_NAME, PlannedWorker, Roster, number_of
from headrace.launch.site import ProcessSite, Site
from headrace.launch.worker_settings import worker_settings

READY_PATH = "/ready"
"""Path at which a gateway says whether the platform answers."""
STOP_SECONDS = {"gateway": 6.0, "worker": 5.0}
"""Seconds that a service has to end: a gateway for its open requests, a worker for the processes that compute for it.
All others have two."""
START_SECONDS = 600.0
"""Seconds for which requests wait for the first worker of a model that may have none."""


def plan(spec: PlatformSpec, site: Site) -> list[ProcessSpec]:
    """Plans the processes of a platform: NATS, where the site has its own, then the services, gateways last. Raises
    ConfigError for a process without an address, and for models that cannot be served as asked."""
    return _Planning(spec, site, Roster.of(spec)).processes()


@dataclass(frozen=True, slots=True)
class _Planning:
    """A platform, its site and the names of its processes."""

    spec: PlatformSpec
    site: Site
    roster: Roster

    def processes(self) -> list[ProcessSpec]:
        roster = self.roster
        return [
            *self._nats(),
            *(self._service("tokenizer", name, self._texts()) for name in roster.tokenizers),
            *(self._scheduler(name) for name in roster.schedulers),
            *(self._service("cache", name, self._kept(name)) for name in roster.caches),
            *(self._worker(worker) for worker in roster.workers),
            *(self._gateway(name) for name in roster.gateways),
        ]

    def _nats(self) -> list[ProcessSpec]:
        nats = self.site.nats
        if nats is None:
            return []
        monitoring = (PlannedPort("monitoring", nats.monitoring_port),) if nats.monitoring_port else ()
        process = ProcessSpec(
            name=NATS_NAME,
            role="nats",
            module="",
            health=HealthCheck("nats", nats.address),
            environment=nats.environment,
            server_arguments=nats.arguments,
            ports=(PlannedPort("nats", nats.port), *monitoring),
        )
        return [process]

    def _texts(self) -> dict[str, object]:
        models = self.spec.models
        templates = {model.name: str(model.chat_template) for model in models if model.chat_template}
        chosen = {"chat_templates": _pairs(templates)} if templates else {}
        return {"models": _pairs({model.name: str(model.folder) for model in models}), **chosen}

    def _kept(self, name: str) -> dict[str, object]:
        """Returns what a cache keeps, and where."""
        return _chosen(folder=self.site.of(name).folder, kv_store_bytes=self.spec.kv_store_bytes or None)

    def _scheduler(self, name: str) -> ProcessSpec:
        files = _chosen(workers_file=self.site.of(name).workers_file)
        settings = {"cache_addresses": self._called(self.roster.caches), **files}
        waits = {"no_worker_seconds": START_SECONDS} if self._may_lack_workers else {}
        return self._service("scheduler", name, settings, defaults=waits)

    @property
    def _may_lack_workers(self) -> bool:
        bounds = self.spec.worker_bounds
        return bounds is not None and bounds.allows_none

    def _worker(self, worker: PlannedWorker) -> ProcessSpec:
        spec = self.spec
        share = spec.thread_count(self.site.core_count)
        threads = spec.model_options.get("thread_count") or share
        names = [worker.model.name] if worker.model else [model.name for model in spec.models]
        store = {"kv_store_addresses": self._called(self.roster.caches)} if spec.kv_store_bytes else {}
        return self._service(
            "worker",
            worker.name,
            worker_settings(worker, spec) | store,
            # Only a default, because only here it is known how many workers share the cores.
            defaults={"thread_count": share},
            # The pool of torch is made when torch is imported, before a worker reads its settings.
            environment={"OMP_NUM_THREADS": str(threads)} if threads else {},
            model=", ".join(names),
        )

    def _gateway(self, name: str) -> ProcessSpec:
        spec, site, roster, own = self.spec, self.site, self.roster, self.site.of(name)
        settings: dict[str, object] = {"http_address": site.http_address, **_chosen(http_socket=site.http_socket)}
        settings |= _chosen(strict=spec.strict)
        settings["tokenizer_addresses"] = self._called(roster.tokenizers)
        settings["scheduler_addresses"] = self._called(roster.schedulers)
        settings["cache_addresses"] = self._called(roster.caches)
        settings |= _chosen(keys_file=spec.keys_file, workers_file=own.workers_file, models_file=site.models_file)
        settings |= {"keeps_models": True} if self._may_lack_workers else {}
        settings |= {"keys_optional": True} if spec.keys_optional else {}
        settings |= {"aliases": _pairs(spec.aliases)} if spec.aliases else {}
        settings |= {"probe_address": own.probe} if own.probe else {}
        order = {"model_order": ",".join(spec.model_order)} if spec.model_order else {}
        others = [other for other in roster.names if other not in roster.gateways]
        return self._service(
            "gateway",
            name,
            settings,
            defaults=order | _chosen(usage_folder=site.usage_folder, files_folder=site.files_folder),
            needs=tuple(others),
            ports=_gateway_ports(own, site.http_address),
            descriptors=() if site.http_socket is None else (site.http_socket,),
            platform_health=HealthCheck("http", site.http_address, READY_PATH),
        )

    def _service(
        self,
        role: str,
        name: str,
        settings: Mapping[str, object],
        *,
        defaults: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        needs: tuple[str, ...] = (),
        ports: tuple[PlannedPort, ...] = (),
        descriptors: tuple[int, ...] = (),
        platform_health: HealthCheck | None = None,
        model: str = "",
    ) -> ProcessSpec:
        """Plans a service: what all have in common, and what is of its role."""
        own = self.site.of(name)
        return ProcessSpec(
            name=name,
            role=role,
            module=f"headrace.{role}",
            health=HealthCheck("grpc", own.probed),
            settings={**self._common(role, name), **settings},
            defaults=defaults or {},
            config_file=self.spec.config_file,
            environment={**self._secrets(role), **(environment or {})},
            ports=ports or (PlannedPort("grpc", _port_of(own.listen)), *_metrics_port(own)),
            descriptors=descriptors,
            needs=(*((NATS_NAME,) if self.site.nats else ()), *needs),
            platform_health=platform_health,
            model=model,
            stop_seconds=STOP_SECONDS.get(role, 2.0),
        )

    def _common(self, role: str, name: str) -> dict[str, object]:
        own, site = self.site.of(name), self.site
        common: dict[str, object] = {"service_id": name, "listen_address": own.listen, "instance": number_of(name)}
        common |= {"advertise_address": own.advertise} if own.advertise else {}
        common |= {"metrics_port": own.metrics_port} if own.metrics_port else {}
        common |= self.spec.service_options
        return common | _chosen(credential_file=site.credential_file, certificates=site.certificates.get(role))

    def _secrets(self, role: str) -> dict[str, str]:
        secrets = {"credential": self.site.credential, "nats_url": self.site.nats_url}
        return {variable_of(role, name): value for name, value in secrets.items() if value}

    def _called(self, names: tuple[str, ...]) -> str:
        return ",".join(self.site.of(name).called for name in names)


def _pairs(values: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())


def _chosen(**settings: object) -> dict[str, object]:
    """Returns the settings that have a value."""
    return {name: value for name, value in settings.items() if value is not None}


def _gateway_ports(own: ProcessSite, http_address: str) -> tuple[PlannedPort, ...]:
    http = PlannedPort("http", _port_of(http_address), is_public=True)
    grpc = PlannedPort("grpc", _port_of(own.listen), is_public=True)
    probed = (PlannedPort("probe", _port_of(own.probe)),) if own.probe else ()
    return (http, grpc, *probed, *_metrics_port(own))


def _metrics_port(own: ProcessSite) -> tuple[PlannedPort, ...]:
    return (PlannedPort("metrics", own.metrics_port),) if own.metrics_port else ()


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2])
