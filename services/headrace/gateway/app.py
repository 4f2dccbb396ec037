"""Wiring of the gateway."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from prometheus_client import REGISTRY, CollectorRegistry

from headrace.bus.bus import Bus
from headrace.domain.deadline import Deadline
from headrace.gateway.access.gate import open_gate
from headrace.gateway.access.limits.limiter import Limiter
from headrace.gateway.access.limits.shared_budgets import SharedBudgets
from headrace.gateway.api.anthropic.message_routes import MessageRoutes
from headrace.gateway.api.batches.batch_routes import BatchRoutes
from headrace.gateway.api.batches.file_routes import FileRoutes
from headrace.gateway.api.grpc.inference_servicer import InferenceServicer
from headrace.gateway.api.openai.responses.response_archive import ResponseArchive
from headrace.gateway.api.openai.routes.embedding import EmbeddingRoutes
from headrace.gateway.api.openai.routes.generation import GenerationRoutes
from headrace.gateway.api.openai.routes.models import ModelRoutes
from headrace.gateway.api.openai.routes.moderations import ModerationRoutes
from headrace.gateway.api.openai.routes.ranking import RankingRoutes
from headrace.gateway.api.openai.routes.responses import ResponseRoutes
from headrace.gateway.api.openai.routes.streams import StreamRoutes
from headrace.gateway.api.openai.routes.text import TextRoutes
from headrace.gateway.api.openapi.document_routes import DocumentRoutes
from headrace.gateway.api.operation.models.served_routes import ServedRoutes
from headrace.gateway.api.operation.monitoring import MonitoringRoutes
from headrace.gateway.api.operation.requests import RequestRoutes
from headrace.gateway.api.operation.usage import UsageRoutes
from headrace.gateway.api.operation.workers import WorkerRoutes
from headrace.gateway.batches.batch_leases import BatchLeases
from headrace.gateway.batches.batch_runner import BatchRunner
from headrace.gateway.batches.lines.line_caller import LineCaller
from headrace.gateway.batches.lines.line_endpoint import line_endpoints
from headrace.gateway.batches.storage.shared_folder import SharedFolder, open_folder
from headrace.gateway.config import GatewaySettings
from headrace.gateway.console.console_routes import ConsoleRoutes
from headrace.gateway.console.fleet_history import FleetHistory
from headrace.gateway.console.fleet_report import FleetReport
from headrace.gateway.console.fleet_routes import FleetRoutes
from headrace.gateway.console.key_routes import KeyRoutes
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.placement.schedulers import Schedulers
from headrace.gateway.delivery.placement.self_placement import SelfPlacement
from headrace.gateway.filter.filters import Filters, read_filters
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.known_workers import KnownWorkers
from headrace.gateway.fleet.platform_health import PlatformHealth
from headrace.gateway.fleet.platform_metrics import PlatformMetrics
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.endpoint_group import EndpointGroup
from headrace.gateway.http.server import HttpServer
from headrace.gateway.large_blocks import return_large_blocks
from headrace.gateway.peers.known_requests import KnownRequests
from headrace.gateway.peers.peers import Peers
from headrace.gateway.publisher import GatewayInquirer
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.resumption.journals import Journals
from headrace.gateway.routes import Routes
from headrace.gateway.subscriber import GatewaySubscriber
from headrace.gateway.timing.exposition import register
from headrace.gateway.timing.latency_budgets import LatencyBudgets
from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.lifecycle import Background, OpenBus, Service, channels_to, open_nats
from headrace.rpc.channel import Channel, OpenChannel
from headrace.rpc.checks.request_limits import RequestLimits
from headrace.rpc.health import is_serving
from headrace.service_clients.cache import CacheClient, GrpcCacheClient
from headrace.service_clients.hedged_tokenizer import HedgedTokenizer
from headrace.service_clients.scheduler import SchedulerStream
from headrace.service_clients.several_caches import SeveralCaches
from headrace.service_clients.tokenizer import GrpcTokenizerClient
from headrace.service_clients.worker import GrpcWorkerClient
from headrace.v1 import inference_pb2_grpc

FAREWELL_SECONDS = 1.0
"""Seconds before the stop deadline at which requests still running end with an error, so that no connection just
breaks."""
ANSWER_SECONDS = 1.0
"""Seconds that a service has to answer a health check."""


@dataclass(frozen=True, slots=True)
class _Others:
    """Clients of the services that the gateway calls."""

    tokenizer: HedgedTokenizer
    schedulers: list[SchedulerStream]
    cache: SeveralCaches
    questions: dict[str, list[Callable[[], Awaitable[bool]]]]
    """Health checks of the processes, by kind of service."""

    def start(self, background: Background) -> None:
        """Opens the streams that stay open."""
        for number, stream in enumerate(self.schedulers):
            background.start(stream.run(), f"scheduler-stream-{number}")


@contextlib.asynccontextmanager
async def open_app(
    settings: GatewaySettings, open_bus: OpenBus = open_nats, registry: CollectorRegistry = REGISTRY
) -> AsyncIterator[Service]:
    """Connects to the other services, serves HTTP, and yields the service with the public gRPC API. `registry`: takes
    the metrics of the platform; gateways of one process need one each."""
    return_large_blocks()
    bus = open_bus(settings)
    subscriber = GatewaySubscriber(bus)
    open_worker = partial(_open_worker, channels_to("worker", settings))
    fleet = Fleet(settings, open_worker, subscriber)
    ledger = _open_ledger(settings)
    metrics = PlatformMetrics(fleet, ledger)
    peers = Peers(settings.service_id, GatewayInquirer(bus, settings.service_id).ask)
    requests = KnownRequests(ledger, peers)
    history = FleetHistory(fleet, metrics, ledger.recent)
    async with contextlib.AsyncExitStack() as stack:
        others = await _connect(settings, stack)
        filters = read_filters(settings.filters_file)
        schedulers = Schedulers(others.schedulers, SelfPlacement(fleet))
        pipeline = Pipeline(settings, others.tokenizer, schedulers, others.cache, fleet, filters)
        health = PlatformHealth(others.questions, fleet, subscriber)
        background, epoch, folder = Background(), time.time_ns(), open_folder(settings)
        holder = f"{settings.service_id}@{epoch:x}"
        gate = open_gate(settings, Limiter(SharedBudgets(bus), holder))
        journals = Journals(settings, others.cache)
        answering = _answering_groups(settings, pipeline, ledger, filters, others.cache, background, journals)
        messages = MessageRoutes(settings, pipeline, ledger, journals)
        groups: list[EndpointGroup] = [
            *answering,
            messages,
            StreamRoutes(journals, [answering[0], messages]),
            *_other_groups(settings, pipeline, ledger, folder, requests),
            MonitoringRoutes(health, gate, registry, folder),
            WorkerRoutes(settings, fleet),
            ServedRoutes(settings, fleet),
            FleetRoutes(FleetReport(settings, fleet, health, metrics), history, requests),
        ]
        uploads = UploadBudget(settings.max_upload_bytes)
        routes = Routes(settings, groups, gate, ledger.recent, ConsoleRoutes(), uploads)
        http = HttpServer(routes, settings, gate, uploads)
        lines = LineCaller(line_endpoints(answering), gate, ledger.recent, settings)
        batches = BatchRunner(folder, BatchLeases(bus, holder), lines, settings)
        servicer = InferenceServicer(settings, pipeline, ledger, gate)
        _show(metrics, registry, settings, stack)
        workers = KnownWorkers(fleet, open_worker, settings.workers_file)
        await subscriber.listen(workers, metrics)
        await subscriber.listen_to_peers(peers, requests)
        background.watch(bus.start())
        for part in (bus, gate, fleet, background, batches, journals):
            stack.push_async_callback(part.close)
        for name, work in (("health", health), ("gate", gate), ("batches", batches), ("journals", journals)):
            background.start(work.watch(), name)
        background.start(fleet.watch_names(), "names")
        background.start(history.watch(), "history")
        workers.start(background, subscriber.follow_registry(workers, peers))
        others.start(background)
        background.watch(await http.start())
        stack.push_async_callback(http.stop, Deadline.after(0))
        drain = partial(_drain, health, batches, fleet, http, ledger)
        yield _service(settings, bus, servicer, http, background, epoch, drain)


def _service(
    settings: GatewaySettings,
    bus: Bus,
    servicer: InferenceServicer,
    http: HttpServer,
    background: Background,
    epoch: int,
    drain: Callable[[Deadline], Awaitable[None]],
) -> Service:
    """Describes the public gRPC API, which is served beside HTTP."""
    return Service(
        kind="gateway",
        is_public=True,
        request_limits=RequestLimits(settings.max_body_bytes, element_count=settings.max_body_elements),
        tls_files=settings.tls_files,
        bus=bus,
        bind=lambda server: inference_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server),
        service_names=["headrace.v1.InferenceService"],
        epoch=epoch,
        on_listening=lambda address: _print_addresses(http.address, address),
        drain=drain,
        background=background,
    )


def _open_ledger(settings: GatewaySettings) -> Ledger:
    budgets = LatencyBudgets(settings.ttft_targets, settings.tpot_targets)
    return Ledger(settings.max_open_requests, budgets, RecentRequests(settings.recent_requests))


def _show(
    metrics: PlatformMetrics, registry: CollectorRegistry, settings: GatewaySettings, stack: contextlib.AsyncExitStack
) -> None:
    """Shows the metrics of the platform until `stack` ends."""
    for collector in register(registry, settings.metrics_compat, metrics):
        stack.callback(registry.unregister, collector)


async def _drain(
    health: PlatformHealth, batches: BatchRunner, fleet: Fleet, http: HttpServer, ledger: Ledger, deadline: Deadline
) -> None:
    """Lets requests end until shortly before the deadline, when the rest are notified."""
    health.stopping = True
    await batches.close()
    asyncio.get_running_loop().call_later(deadline.remaining - FAREWELL_SECONDS, fleet.inboxes.stop)
    await http.stop(deadline)
    await ledger.wait_until_empty(deadline)


def _answering_groups(
    settings: GatewaySettings,
    pipeline: Pipeline,
    ledger: Ledger,
    filters: Filters,
    cache: CacheClient,
    background: Background,
    journals: Journals,
) -> tuple[GenerationRoutes, ResponseRoutes, EmbeddingRoutes, ModerationRoutes]:
    """Returns the endpoints that the lines of batches may ask too."""
    return (
        GenerationRoutes(settings, pipeline, ledger, journals),
        ResponseRoutes(settings, pipeline, ledger, ResponseArchive(cache), background, journals),
        EmbeddingRoutes(settings, pipeline, ledger),
        ModerationRoutes(filters),
    )


def _other_groups(
    settings: GatewaySettings,
    pipeline: Pipeline,
    ledger: Ledger,
    folder: SharedFolder | None,
    requests: KnownRequests,
) -> list[EndpointGroup]:
    return [
        DocumentRoutes(),
        RankingRoutes(settings, pipeline, ledger),
        ModelRoutes(pipeline),
        TextRoutes(settings, pipeline, ledger),
        UsageRoutes(settings.usage_folder),
        KeyRoutes(settings.keys_file),
        FileRoutes(settings, folder),
        BatchRoutes(settings, folder),
        RequestRoutes(requests),
    ]


def _open_worker(open_channel: OpenChannel, address: str) -> GrpcWorkerClient:
    return GrpcWorkerClient(open_channel(address))


async def _connect(settings: GatewaySettings, stack: contextlib.AsyncExitStack) -> _Others:
    """Opens a channel to each address of the settings, until `stack` ends."""

    async def connect(role: str, addresses: Sequence[str]) -> list[Channel]:
        opened = map(channels_to(role, settings), addresses)
        return [await stack.enter_async_context(channel) for channel in opened]

    tokenizers = await connect("tokenizer", settings.tokenizer_addresses)
    schedulers = await connect("scheduler", settings.scheduler_addresses)
    caches = await connect("cache", settings.cache_addresses)
    kinds = {"tokenizer": tokenizers, "scheduler": schedulers, "cache": caches}
    clients = map(GrpcCacheClient, caches)
    return _Others(
        HedgedTokenizer([GrpcTokenizerClient(channel) for channel in tokenizers]),
        [SchedulerStream(channel) for channel in schedulers],
        SeveralCaches(dict(zip(settings.cache_addresses, clients, strict=True))),
        {kind: [partial(is_serving, one, ANSWER_SECONDS) for one in channels] for kind, channels in kinds.items()},
    )


def _print_addresses(http: str, grpc: str) -> None:
    """Prints the addresses for the starter of the process: the ports may have been picked at the start."""
    sys.stdout.write(json.dumps({"event": "listening", "http": http, "grpc": grpc}) + "\n")
    sys.stdout.flush()
