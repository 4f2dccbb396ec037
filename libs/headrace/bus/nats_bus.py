"""Bus over NATS: events on core NATS, the registry and leases in JetStream key-value buckets.

It connects in the background and retries forever: a service starts, and runs on, without it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import nats.errors
import nats.js.errors
from google.protobuf.message import DecodeError, Message
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import KeyValueConfig
from nats.js.client import JetStreamContext
from nats.js.errors import Error as JetStreamError
from nats.js.kv import KeyValue

from headrace import failpoints
from headrace.bus.bus import (
    EVENTS_DROPPED,
    LEASES,
    REGISTRY,
    TRACE_HEADER,
    GapCounter,
    M,
    Numbering,
    Store,
    StoreAway,
    Versioned,
)
from headrace.bus.login import Login
from headrace.telemetry.traces import current_traceparent

RECONNECT_WAIT: Any = 0.2  # nats-py annotates an int and takes a float
REQUEST_TIMEOUT = 2.0
CANCEL_INTERVAL = 0.1
NO_RESPONDERS = "503"
"""Status by which NATS reports that there are no responders (ADR-22)."""

_log = logging.getLogger(__name__)
_FAILURES = (NatsError, JetStreamError, OSError, TimeoutError, asyncio.TimeoutError)


class NatsBus:
    """A Bus on a NATS server."""

    def __init__(
        self, url: str, publisher_id: str, login: Login | None = None, token: str = "", replicas: int = 1
    ) -> None:
        """`url`: of one server, or of several, separated by commas, of which one is tried after the other.
        `login`: the certificate to show. None: plain text, with the token, which may stand in the URL instead.
        `replicas`: servers of a cluster that keep each bucket at least."""
        self._url = url
        self._replicas = replicas
        self._login = login
        self._token = {"token": token} if token else {}
        self._numbering = Numbering(publisher_id)
        self._gaps = GapCounter()
        self._client = Client()
        self._buckets = dict[Store, KeyValue]()
        """Buckets found on this connection and forgotten at the first failure, as NATS may have lost them."""
        self._unreplicated = set[Store]()
        """Buckets that had fewer replicas than asked, as was logged."""
        self._subscriptions: list[tuple[str, Callable[[Msg], Any]]] = []
        self._connect_callbacks: list[Callable[[], None]] = []
        self._connecting: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return bool(self._client.is_connected)

    def start(self) -> "asyncio.Task[None]":
        """Starts connecting. Returns at once, with the task that does it."""
        self._connecting = asyncio.create_task(self._connect(), name="nats-connect")
        return self._connecting

    async def publish(self, subject: str, message: Message) -> None:
        headers = self._numbering.headers(subject)
        if traceparent := current_traceparent():
            headers[TRACE_HEADER] = traceparent
        if not self.connected:
            EVENTS_DROPPED.labels(reason="disconnected").inc()
            return
        try:
            for name, data, tags in failpoints.fate("bus.publish", (subject, message.SerializeToString(), headers)):
                await self._client.publish(name, data, headers=tags)
        except _FAILURES:
            EVENTS_DROPPED.labels(reason="publish_failed").inc()

    async def subscribe(self, pattern: str, message_type: type[M], handler: Callable[[M], None]) -> None:
        async def deliver(received: Msg) -> None:
            self._gaps.count_missing(received.subject, received.headers or {})
            try:
                message = message_type.FromString(received.data)
            except DecodeError:
                EVENTS_DROPPED.labels(reason="undecodable").inc()
                return
            handler(message)

        self._subscriptions.append((pattern, deliver))
        if self.connected:
            await self._client.subscribe(pattern, cb=deliver)

    async def ask(self, subject: str, question: Message, answer_type: type[M], count: int, seconds: float) -> list[M]:
        if not self.connected or count < 1:
            return []
        told: list[M] = []
        try:
            async with asyncio.timeout(seconds):
                inbox = self._client.new_inbox()
                subscription = await self._client.subscribe(inbox, max_msgs=count)
                try:
                    await self._client.publish(subject, question.SerializeToString(), reply=inbox)
                    while len(told) < count:
                        received = await subscription.next_msg(seconds)
                        if (received.headers or {}).get("Status") == NO_RESPONDERS:
                            break
                        told.append(answer_type.FromString(received.data))
                finally:
                    with contextlib.suppress(*_FAILURES):
                        await subscription.unsubscribe()
        except (*_FAILURES, DecodeError) as error:
            _log.debug("fewer answers than expected", extra={"subject": subject, "error": repr(error)})
        return told

    async def answer(self, pattern: str, question_type: type[M], handler: Callable[[M], Message | None]) -> None:
        async def respond(received: Msg) -> None:
            try:
                told = handler(question_type.FromString(received.data))
                if told is not None:
                    await received.respond(told.SerializeToString())
            except (*_FAILURES, DecodeError) as error:
                EVENTS_DROPPED.labels(reason="unanswered").inc()
                _log.debug("a question was not answered", extra={"subject": received.subject, "error": repr(error)})

        self._subscriptions.append((pattern, respond))
        if self.connected:
            await self._client.subscribe(pattern, cb=respond)

    async def put(self, key: str, message: Message) -> None:
        with self._tolerated("put"):
            await (await self._registry()).put(key, message.SerializeToString())

    async def delete(self, key: str) -> None:
        with self._tolerated("delete"):
            await (await self._registry()).delete(key)

    async def entries(self, message_type: type[M]) -> list[M]:
        found: list[M] = []
        with self._tolerated("entries"):
            registry = await self._registry()
            with contextlib.suppress(nats.js.errors.NoKeysError):
                for key in await registry.keys():
                    with contextlib.suppress(nats.js.errors.KeyNotFoundError, DecodeError):
                        found.append(message_type.FromString((await registry.get(key)).value or b""))
        return found

    async def read(self, key: str, message_type: type[M], store: Store = LEASES) -> Versioned[M] | None:
        with self._required():
            try:
                entry = await (await self._bucket(store)).get(key)
            except nats.js.errors.KeyNotFoundError:
                return None
        with contextlib.suppress(DecodeError):
            return Versioned(message_type.FromString(entry.value or b""), entry.revision or 0)
        return Versioned(message_type(), entry.revision or 0)

    async def swap(self, key: str, message: Message, revision: int, store: Store = LEASES) -> int | None:
        with self._required():
            bucket = await self._bucket(store)
            try:
                return int(await bucket.update(key, message.SerializeToString(), last=revision))
            except nats.js.errors.KeyWrongLastSequenceError:
                return None

    def on_connect(self, callback: Callable[[], None]) -> None:
        self._connect_callbacks.append(callback)
        if self.connected:
            callback()

    async def close(self) -> None:
        if self._connecting is not None:
            deadline = time.monotonic() + REQUEST_TIMEOUT
            while not self._connecting.done() and time.monotonic() < deadline:
                # Repeated, because the client swallows a cancellation that comes just as a connection is refused.
                self._connecting.cancel()
                await asyncio.wait({self._connecting}, timeout=CANCEL_INTERVAL)
        with contextlib.suppress(*_FAILURES):
            async with asyncio.timeout(REQUEST_TIMEOUT):
                await self._client.close()

    async def _connect(self) -> None:
        while not self.connected:
            try:
                await self._client.connect(
                    self._url.split(","),
                    name=self._numbering.publisher_id,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_WAIT,
                    connect_timeout=2,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    error_cb=self._count_error,
                    reconnected_cb=self._announce_connection,
                    disconnected_cb=self._renew_login,
                    **(self._token if self._login is None else self._login.options),
                )
            except _FAILURES as error:
                _log.debug("cannot reach NATS yet", extra={"error": repr(error)})
                await asyncio.sleep(RECONNECT_WAIT)
        for pattern, deliver in self._subscriptions:
            await self._client.subscribe(pattern, cb=deliver)
        await self._announce_connection()

    async def _renew_login(self) -> None:
        if self._login is not None:
            try:
                self._login.reload()
            except OSError as error:
                _log.warning("the renewed certificate is not used yet", extra={"error": repr(error)})

    async def _announce_connection(self) -> None:
        self._buckets.clear()
        _log.info("connected to NATS")
        for callback in self._connect_callbacks:
            callback()

    async def _count_error(self, error: Exception) -> None:
        EVENTS_DROPPED.labels(reason=type(error).__name__).inc()
        _log.debug("NATS error", extra={"error": repr(error)})

    async def _registry(self) -> KeyValue:
        return await self._bucket(REGISTRY)

    async def _bucket(self, store: Store) -> KeyValue:
        if not self.connected:
            raise nats.errors.ConnectionClosedError
        if store not in self._buckets:
            jetstream = self._client.jetstream(timeout=REQUEST_TIMEOUT)
            bucket = await self._open_bucket(jetstream, store)
            if not await self._is_replicated(jetstream, store):
                return bucket
            self._buckets[store] = bucket
        return self._buckets[store]

    async def _open_bucket(self, jetstream: JetStreamContext, store: Store) -> KeyValue:
        """Finds a bucket, or makes it where this login may."""
        try:
            bucket = await jetstream.key_value(store.bucket)
        except nats.js.errors.NotFoundError:
            if not self._may_make(store):
                raise
            bucket = await self._make_bucket(jetstream, store)
        if self._may_make(store):
            await _forbid_rollups(jetstream, store)
        return bucket

    async def _make_bucket(self, jetstream: JetStreamContext, store: Store) -> KeyValue:
        """Makes a bucket with all its replicas at once: the only one may be given to a server that has just died."""
        config = KeyValueConfig(bucket=store.bucket, ttl=store.lifetime, replicas=self._replicas)
        if self._replicas > 1:
            with contextlib.suppress(JetStreamError):
                return await jetstream.create_key_value(config)
        return await jetstream.create_key_value(replace(config, replicas=1))

    async def _is_replicated(self, jetstream: JetStreamContext, store: Store) -> bool:
        """Whether as many servers as asked keep a bucket, or this login cannot change it. A cluster without one of its
        servers makes no more replicas: the bucket is used meanwhile, and this is tried again with its next use."""
        if self._replicas == 1 or not self._may_make(store):
            return True
        config = (await jetstream.stream_info(store.stream)).config
        if (config.num_replicas or 1) >= self._replicas:
            return True
        try:
            await jetstream.update_stream(config.evolve(num_replicas=self._replicas))
        except JetStreamError as error:
            log = _log.debug if store in self._unreplicated else _log.warning
            self._unreplicated.add(store)
            log(
                "fewer servers of NATS than nats_replicas keep a bucket: is one of them gone, or the cluster smaller?",
                extra={"bucket": store.bucket, "nats_replicas": self._replicas, "error": repr(error)},
            )
            return False
        return True

    def _may_make(self, store: Store) -> bool:
        return self._login is None or self._login.may_make(store)

    @contextlib.contextmanager
    def _tolerated(self, action: str) -> Iterator[None]:
        """Counts a failure of the registry and continues: entries are registered again."""
        try:
            yield
        except _FAILURES as error:
            self._buckets.clear()
            EVENTS_DROPPED.labels(reason=f"registry_{action}_failed").inc()
            _log.debug("the registry did not answer", extra={"action": action, "error": repr(error)})

    @contextlib.contextmanager
    def _required(self) -> Iterator[None]:
        """Turns every failure of the store into StoreAway."""
        try:
            yield
        except _FAILURES as error:
            self._buckets.clear()
            raise StoreAway(f"the store of NATS does not answer: {error!r}") from None


async def _forbid_rollups(jetstream: JetStreamContext, store: Store) -> None:
    """Has a bucket take no message that removes others, which the client library would let any client send."""
    config = (await jetstream.stream_info(store.stream)).config
    if config.allow_rollup_hdrs:
        await jetstream.update_stream(config.evolve(allow_rollup_hdrs=False))
