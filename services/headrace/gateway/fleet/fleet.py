"""The workers as this gateway knows them: what they serve, how loaded they are, and the attachment to each."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from headrace.errors import InvalidRequest, ModelNotFound, NotFound, Unavailable, Unsupported
from headrace.errors.tree import WorkerLost
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.attachment import Attachment
from headrace.gateway.fleet.inboxes.inboxes import Inboxes
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.model_memory import BusLink, ModelMemory
from headrace.gateway.fleet.quarantine import Quarantine
from headrace.gateway.fleet.served.served_names import ServedNames
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.rpc.member_address import split
from headrace.service_clients.worker import WorkerClient
from headrace.v1.scheduler_pb2 import Generation, Place
from headrace.v1.worker_pb2 import BatchMember, DispatchResponse

ATTACH_TIMEOUT = 1.5
EPOCH_SECONDS = 2.0
"""Seconds in which a worker sends at least two heartbeats."""
SWEEP_SECONDS = 1.0
"""Seconds between two sweeps for silent workers. Each looks at all workers."""
LIST_SECONDS = 1.0
"""Seconds after which the list of models is rebuilt without the workers that fell silent."""
NAMES_SECONDS = 0.25
"""Seconds between two looks at what was loaded and unloaded."""
DRAIN_SECONDS = 5.0
"""Longest time, in seconds, in which a worker says that it drains."""
FORGET_SECONDS = 120.0
"""Seconds without news after which a worker that is not attached is no longer listed."""


class Fleet:
    """Learns of workers from heartbeats and from placements, and attaches to each."""

    def __init__(
        self, settings: GatewaySettings, open_worker: Callable[[str], WorkerClient], link: BusLink | None = None
    ) -> None:
        """`open_worker`: makes the client of the worker at an address, `host:port`."""
        self.inboxes = Inboxes()
        self.names = ServedNames(settings.aliases, settings.models_file)
        self.quarantine = Quarantine()
        self._memory = ModelMemory(link, keeps=settings.keeps_models)
        self._settings = settings
        self._open_worker = open_worker
        self._workers: dict[str, WorkerFacts] = {}
        self._heard: dict[str, float] = {}
        self._swept = -math.inf
        self._listed: dict[str, ModelFacts] | None = None
        """Models by name, as last listed. None: something has changed since."""
        self._listed_at = -math.inf
        self._attachments: dict[str, Attachment] = {}
        self._tasks: dict[Attachment, asyncio.Task[None]] = {}

    @property
    def workers(self) -> list[WorkerFacts]:
        """Workers with a recent heartbeat, or attached."""
        now = time.monotonic()
        return [
            worker
            for name, worker in list(self._workers.items())
            if now - self._heard.get(name, 0) < FORGET_SECONDS or self.is_attached(name)
        ]

    @property
    def attached_count(self) -> int:
        return sum(attachment.alive for attachment in self._attachments.values())

    @property
    def keeps_models(self) -> bool:
        """Whether there are models for which a worker is started when they are asked for."""
        return bool(self._memory.kept())

    def is_attached(self, worker_id: str) -> bool:
        attachment = self._attachments.get(worker_id)
        return attachment is not None and attachment.alive

    def models(self) -> dict[str, ModelFacts]:
        """Models that can be requested, by name, with and without adapters. Read-only.

        The list is rebuilt only when a worker came, changed or left, because every request asks several times.
        """
        now = time.monotonic()
        if self._listed is None or now - self._listed_at > LIST_SECONDS:
            found = self._memory.kept()
            workers = self.workers
            for worker in workers:
                found |= worker.models()
            found |= {worker.model.model: worker.model for worker in workers}
            self._listed = {name: model for name, model in found.items() if not self._is_unloaded(model)}
            self._listed_at = now
        return self._listed

    def listed(self) -> list[ModelFacts]:
        """Returns the models in the order of the settings, each with its adapters behind it."""
        place = {name: index for index, name in enumerate(self._settings.model_order)}

        def key(model: ModelFacts) -> tuple[int, str, bool, str]:
            base = model.parent or model.model
            return place.get(base, len(place)), base, bool(model.parent), model.model

        return sorted(self.models().values(), key=key)

    def tokenizer_of(self, name: str) -> str:
        """Returns the model whose tokenizer `name` uses. An adapter uses its parent's."""
        info = self.models().get(name) or self._memory.recall(name)
        return name if info is None else info.parent or name

    def model(self, name: str) -> ModelFacts:
        """Returns a model that is served, or was a moment ago: the scheduler waits for its next worker.

        Raises ModelNotFound with the names that exist.
        """
        models = self.models()
        info = models.get(name) or self._memory.recall(name)
        if info is None or self._is_unloaded(info):
            named = {*models, *self._memory.names, *self.names.aliases} - self.names.unloaded
            known = ", ".join(sorted(named)) or "none is ready yet"
            raise ModelNotFound(f"model {name!r} does not exist; there are: {known}", param="model")
        return info

    def _is_unloaded(self, model: ModelFacts) -> bool:
        return not self.names.unloaded.isdisjoint((model.model, model.parent))

    async def find(self, name: str) -> ModelFacts:
        """Returns what `model` does, after giving a gateway that has just started time to receive its workers'
        heartbeats.

        Raises ModelNotFound, or Unavailable while it is unknown whether there is such a model.
        """
        if (info := self.models().get(name)) is not None:
            return info
        if await self._memory.wait_for(name) is None and not (self._memory.settled and self._memory.names):
            message = f"it is not known yet whether model {name!r} is served: the platform is starting; try again"
            raise Unavailable(message, param="model", stage="accept", retry_after=1)
        return self.model(name)

    def predicted_wait(self, name: str) -> float:
        """Returns the seconds until some worker has the model awake, as workers predict. 0 where none serves it."""
        waits = [worker.predicted_wait_seconds for worker in self.workers if name in worker.models()]
        return min(waits, default=0.0)

    def text_model(self, name: str) -> ModelFacts:
        """Returns a model that generates text. Raises ModelNotFound, or Unsupported for an embedding model."""
        model = self.model(name)
        if model.scores_pairs:
            raise _scores(name, "text")
        if model.embedding_size:
            raise Unsupported(f"model {name!r} makes embeddings and no text; use /v1/embeddings", param="model")
        return model

    def embedding_model(self, name: str) -> ModelFacts:
        """Returns an embedding model. Raises ModelNotFound, or Unsupported for a model that generates text or scores
        pairs of texts."""
        model = self.comparing_model(name)
        if model.scores_pairs:
            raise _scores(name, "embeddings")
        return model

    def comparing_model(self, name: str) -> ModelFacts:
        """Returns a model that can tell how close two texts are: by a score, or by their embeddings. Raises
        ModelNotFound, or Unsupported for a model that generates text."""
        model = self.model(name)
        if not model.embedding_size:
            others = sorted(other for other, info in self.models().items() if info.embedding_size)
            known = f"use {', '.join(others)}" if others else "serve an encoder beside it for that"
            raise Unsupported(f"model {name!r} makes text and no embeddings; {known}", param="model")
        return model

    def observe(self, worker: WorkerFacts) -> None:
        """Takes in a worker's report about itself."""
        known = self._workers.get(worker.worker_id)
        if known is None and worker.draining:
            return  # It has said goodbye; what it still runs is not to be listed again.
        if known is not None and self._is_outdated(worker, known):
            return
        if known is None or known.model != worker.model:
            self._listed = None
        self._workers[worker.worker_id] = worker
        self._heard[worker.worker_id] = time.monotonic()
        self._memory.note(worker.models())
        self._forget_silent()
        attachment = self._attachments.get(worker.worker_id)
        if attachment is None and not worker.draining:
            self._attach(worker.worker_id, worker.address)

    def _is_outdated(self, worker: WorkerFacts, known: WorkerFacts) -> bool:
        """Whether newer facts are known. Epochs come from clocks, which may have been set back: a smaller epoch counts
        as soon as the larger one falls silent."""
        if worker.epoch == known.epoch:
            return worker.version <= known.version
        silent_seconds = time.monotonic() - self._heard.get(known.worker_id, 0.0)
        return worker.epoch < known.epoch and silent_seconds < EPOCH_SECONDS

    def _forget_silent(self) -> None:
        """Drops workers that have long been silent: worker ids may change with every start."""
        now = time.monotonic()
        if now - self._swept < SWEEP_SECONDS:
            return
        self._swept, limit = now, now - FORGET_SECONDS
        silent = [worker_id for worker_id, heard in self._heard.items() if heard < limit]
        for worker_id in [worker_id for worker_id in silent if not self.is_attached(worker_id)]:
            del self._heard[worker_id]
            self._workers.pop(worker_id, None)
            self._listed = None

    def depart(self, worker_id: str, epoch: int) -> None:
        """Notes a worker's goodbye, in the incarnation with this epoch."""
        known = self._workers.get(worker_id)
        if known is not None and known.epoch <= epoch:
            del self._workers[worker_id]
            self._listed = None

    async def attachment_for(self, place: Place, since: float, timeout: float) -> Attachment:
        """Returns the live attachment to the place of a request. `since`: time at which a place was requested, in
        monotonic seconds.

        Raises WorkerLost when that incarnation of the worker is gone.
        """
        attachment = self._attachments.get(place.worker_id)
        if attachment is not None and attachment.leads_elsewhere(place.worker_epoch, since):
            # The worker has restarted, and the stream to its last incarnation has not noticed yet.
            self._tasks[attachment].cancel()
            self._on_end(attachment)
            attachment = None
        if attachment is None:
            attachment = self._attach(place.worker_id, place.worker_address)
        greeted = await attachment.wait_until_greeted(min(timeout, ATTACH_TIMEOUT))
        if not greeted or attachment.epoch != place.worker_epoch:
            raise WorkerLost(f"worker {place.worker_id} was lost", stage="dispatch")
        return attachment

    def reachable(self, generation: Generation) -> list[WorkerFacts]:
        """Returns the attached workers that serve a request's model, with its adapter."""
        return [
            worker
            for worker in self.workers
            if worker.model.model == generation.model
            and not worker.draining
            and self.is_attached(worker.worker_id)
            and (not generation.adapter or generation.adapter in {adapter.name for adapter in worker.model.adapters})
        ]

    async def dispatch(self, worker_id: str, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
        """Hands a batch to an attached worker. Raises HeadraceError."""
        attachment = self._attachments.get(worker_id)
        if attachment is None:
            raise WorkerLost(f"worker {worker_id} was lost", stage="dispatch")
        return await attachment.dispatch(members, timeout)

    async def drain(self, worker_id: str, patience: float, *, force: bool) -> int:
        """Has a worker move its requests to others after `patience` seconds, and end. Returns the number of requests
        that it still runs.

        Raises NotFound, InvalidRequest for the last worker of its model unless `force` is set, and Unavailable.
        """
        attachment, leaving = self._attachments.get(worker_id), self._workers.get(worker_id)
        if leaving is None or attachment is None or not attachment.alive:
            known = ", ".join(sorted(filter(self.is_attached, self._workers))) or "none"
            raise NotFound(f"this gateway reaches no worker {worker_id!r}; it reaches: {known}")
        if not force and not any(self._could_replace(worker, leaving) for worker in self.workers):
            raise InvalidRequest(
                f"{worker_id} is the last worker of {leaving.model.model}, whose requests would wait for another: "
                "start one first, or set force",
                param="force",
            )
        return await attachment.drain(patience, DRAIN_SECONDS)

    def _could_replace(self, worker: WorkerFacts, leaving: WorkerFacts) -> bool:
        """Whether a worker runs what another one leaves behind. Workers of one process share its address, but for the
        member: they end together."""
        is_other = split(worker.address)[0] != split(leaving.address)[0]
        is_up = self.is_attached(worker.worker_id) and not worker.draining
        return is_other and is_up and worker.model.model == leaving.model.model

    async def watch_names(self) -> None:
        """Follows what is loaded and unloaded, until cancelled."""
        while True:
            await asyncio.sleep(NAMES_SECONDS)
            before = self.names.unloaded
            self.names.refresh()
            if self.names.unloaded != before:
                self._listed = None
            if self.names.unloaded:
                self.inboxes.give_up(self.names.unloaded)

    def cancel(self, worker_id: str, request_id: str, attempt: int) -> None:
        attachment = self._attachments.get(worker_id)
        if attachment is not None:
            attachment.cancel(request_id, attempt)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _attach(self, worker_id: str, address: str) -> Attachment:
        client = self._open_worker(address)
        attachment = Attachment(
            worker_id,
            client,
            self._settings.service_id,
            self.inboxes,
            self._settings.worker_silence_seconds,
            self._settings.worker_stall_seconds,
        )
        self._attachments[worker_id] = attachment
        self._tasks[attachment] = asyncio.create_task(self._run(attachment, client), name=f"attach-{worker_id}")
        return attachment

    async def _run(self, attachment: Attachment, client: WorkerClient) -> None:
        try:
            await attachment.run(self._on_end)
        finally:
            await client.close()

    def _on_end(self, attachment: Attachment) -> None:
        """Forgets an attachment that ended. The next heartbeat or placement attaches again."""
        self._tasks.pop(attachment, None)
        if self._attachments.get(attachment.worker_id) is attachment:
            del self._attachments[attachment.worker_id]


def _scores(name: str, wanted: str) -> Unsupported:
    message = f"model {name!r} scores pairs of texts and makes no {wanted}; use /v1/rerank or /v1/score"
    return Unsupported(message, param="model")
