"""The routes of /v1/batches: requests of a file, answered offline, with no client waiting."""

import time
from collections.abc import Mapping

from headrace.access.key_record import KeyRecord
from headrace.errors import InvalidRequest, NotFound
from headrace.gateway.api.openai.batch_body import BatchBody, parse_batch_body
from headrace.gateway.batches.storage.batch_record import BatchRecord
from headrace.gateway.batches.storage.disk import on_disk
from headrace.gateway.batches.storage.shared_folder import SharedFolder, needed
from headrace.gateway.batches.storage.stored_file import INPUT
from headrace.gateway.batches.storage.timed_id import BATCH, new_id
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.http.forms.page_query import PageQuery, read_page_query

_PATH = "/v1/batches"
DEFAULT_LISTED, MAX_LISTED = 20, 100
_NO_DIGEST = "0" * 64


class BatchRoutes:
    """Makes, lists, shows and cancels batches of a tenant, as OpenAI's API does."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate", "embed"})

    def __init__(self, settings: GatewaySettings, folder: SharedFolder | None) -> None:
        """`folder`: None where there is none."""
        self._settings = settings
        self._opened = folder

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            _PATH: {"GET": self.list_batches, "POST": self.create_batch},
            f"{_PATH}/{{id}}": {"GET": self.show_batch},
            f"{_PATH}/{{id}}/cancel": {"POST": self.cancel_batch},
        }

    @property
    def _folder(self) -> SharedFolder:
        return needed(self._opened)

    async def create_batch(self, exchange: HttpExchange) -> None:
        """Answers as soon as the batch is on the disk. Whichever gateway finds it first runs it."""
        body = parse_batch_body(await exchange.read_body())
        record = self._record(exchange, body)
        await on_disk(self._create, record)
        await exchange.send_json(200, record.described())

    async def list_batches(self, exchange: HttpExchange) -> None:
        query = read_page_query(exchange.query, ("after", "limit"), DEFAULT_LISTED, MAX_LISTED)
        await exchange.send_json(200, await on_disk(self._page, exchange.caller.tenant.name, query))

    async def show_batch(self, exchange: HttpExchange) -> None:
        found = await on_disk(self._folder.batches.get, exchange.caller.tenant.name, _id_in(exchange))
        await exchange.send_json(200, found.described())

    async def cancel_batch(self, exchange: HttpExchange) -> None:
        """Asks for the end of a batch. What was answered until then can be had."""
        await exchange.read_body()
        found = await on_disk(self._folder.batches.cancel, exchange.caller.tenant.name, _id_in(exchange))
        await exchange.send_json(200, found.described())

    def _record(self, exchange: HttpExchange, body: BatchBody) -> BatchRecord:
        now, key = int(time.time()), exchange.caller.key
        kept = body.output_expires_after
        return BatchRecord(
            id=new_id(BATCH),
            tenant=exchange.caller.tenant.name,
            key=None if key is None else _without_secrets(key),
            endpoint=body.endpoint,
            input_file_id=body.input_file_id,
            completion_window=body.completion_window,
            created=now,
            expires=now + int(self._settings.batch_seconds),
            metadata=body.metadata,
            output_seconds=None if kept is None else kept.seconds,
        )

    def _create(self, record: BatchRecord) -> None:
        """Raises NotFound, InvalidRequest for a file of another purpose, and PayloadTooLarge for a tenant that has used
        up its bytes."""
        files = self._folder.files
        try:
            file = files.get(record.tenant, record.input_file_id)
        except NotFound as error:
            raise NotFound(error.message, param="input_file_id") from None
        if file.purpose != INPUT:
            message = f"the purpose of file {file.id} is {file.purpose}: upload one with the purpose {INPUT}"
            raise InvalidRequest(message, param="input_file_id")
        files.remaining(record.tenant)
        self._folder.batches.create(record, files.content_path(record.tenant, file.id))

    def _page(self, tenant: str, query: PageQuery) -> dict[str, object]:
        return query.page(self._folder.batches.newest(tenant, query.after))


def _without_secrets(key: KeyRecord) -> dict[str, object]:
    """Returns a key as a batch keeps it: without what its secret could be tested against."""
    fields = key.model_dump(mode="json", exclude={"digest", "former_digest", "former_expires"})
    return fields | {"digest": _NO_DIGEST}


def _id_in(exchange: HttpExchange) -> str:
    return exchange.path.removeprefix(f"{_PATH}/").partition("/")[0]
