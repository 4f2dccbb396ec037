"""The routes of /v1/files: files of requests for batches, and what batches have answered."""

import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import BinaryIO

from headrace.domain.deadline import Deadline
from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.api.openai.batch_body import MAX_SECONDS, MIN_SECONDS
from headrace.gateway.batches.storage.disk import held_on_disk, on_disk
from headrace.gateway.batches.storage.file_store import FileStore
from headrace.gateway.batches.storage.shared_folder import SharedFolder, needed
from headrace.gateway.batches.storage.stored_file import INPUT, StoredFile
from headrace.gateway.batches.storage.timed_id import FILE, new_id
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.http.forms.page_query import PageQuery, read_page_query
from headrace.gateway.http.forms.upload_form import FILE_FIELD, UploadForm

_PATH = "/v1/files"
MAX_LISTED = 10_000
TRANSFER_SECONDS = 3600.0
"""Maximum seconds that the transfer of a file may take."""
PART_BYTES = 64 * 1024
FORM_BYTES = 128 * 1024
"""Bytes of a form in addition to those of its file."""
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"
_SOME_DIGITS = re.compile(r"[0-9]{1,8}")


class FileRoutes:
    """Stores, lists, shows and deletes files of a tenant, as OpenAI's API does."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate", "embed"})

    def __init__(self, settings: GatewaySettings, folder: SharedFolder | None) -> None:
        """`folder`: None where there is none."""
        self._settings = settings
        self._opened = folder

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            _PATH: {"GET": self.list_files, "POST": self.create_file},
            f"{_PATH}/{{id}}": {"GET": self.show_file, "DELETE": self.delete_file},
            f"{_PATH}/{{id}}/content": {"GET": self.send_content},
        }

    @property
    def _store(self) -> FileStore:
        return needed(self._opened).files

    async def create_file(self, exchange: HttpExchange) -> None:
        """Stores a file while it arrives. It can be found once it is on the disk. One for which the disk has no room
        leaves nothing there."""
        tenant, file_id = exchange.caller.tenant.name, new_id(FILE)
        try:
            file = await self._receive(exchange, tenant, file_id)
            await on_disk(self._store.add, tenant, file)
        except OSError:
            await on_disk(self._store.discard, tenant, file_id)
            raise
        await exchange.send_json(200, file.described())

    async def _receive(self, exchange: HttpExchange, tenant: str, file_id: str) -> StoredFile:
        """Writes the content of a file while it arrives, and returns its facts. Raises InvalidRequest and OSError."""
        form = UploadForm(exchange.header("content-type") or "")
        limit = min(self._settings.file_max_bytes, await on_disk(self._store.remaining, tenant))
        byte_count = 0
        async with held_on_disk(partial(self._store.content, tenant, file_id)) as content:
            async for part in exchange.read_parts(limit + FORM_BYTES, TRANSFER_SECONDS):
                for piece in form.feed(part):
                    byte_count += len(piece)
                    await on_disk(content.write, piece)
            form.end()
            # Others may have filled the folder meanwhile.
            await on_disk(self._store.remaining, tenant)
            return self._file(form, file_id, byte_count)

    async def list_files(self, exchange: HttpExchange) -> None:
        allowed = ("after", "limit", "order", "purpose")
        query = read_page_query(exchange.query, allowed, MAX_LISTED, MAX_LISTED)
        await exchange.send_json(200, await on_disk(self._page, exchange.caller.tenant.name, query))

    async def show_file(self, exchange: HttpExchange) -> None:
        await exchange.send_json(200, (await self._find(exchange)).described())

    async def delete_file(self, exchange: HttpExchange) -> None:
        """Deletes a file. A batch that was made of it continues."""
        file_id = _id_in(exchange)
        await on_disk(self._store.delete, exchange.caller.tenant.name, file_id)
        await exchange.send_json(200, {"id": file_id, "object": "file", "deleted": True})

    async def send_content(self, exchange: HttpExchange) -> None:
        file = await self._find(exchange)
        path = self._store.content_path(exchange.caller.tenant.name, file.id)
        async with held_on_disk(lambda: path.open("rb")) as content:
            await exchange.read_body()
            async with exchange.limit(Deadline.after(TRANSFER_SECONDS)):
                await exchange.send_parts(_parts(content), file.byte_count, "application/jsonl")

    async def _find(self, exchange: HttpExchange) -> StoredFile:
        return await on_disk(self._store.get, exchange.caller.tenant.name, _id_in(exchange))

    def _page(self, tenant: str, query: PageQuery) -> dict[str, object]:
        return query.page(self._chosen(tenant, query))

    def _chosen(self, tenant: str, query: PageQuery) -> Iterator[StoredFile]:
        for file in self._store.newest(tenant, query.after, is_reversed=query.order == "asc"):
            if query.purpose in (None, file.purpose):
                yield file

    def _file(self, form: UploadForm, file_id: str, byte_count: int) -> StoredFile:
        """Returns the facts of a file that has come. Raises InvalidRequest."""
        purpose = form.fields.get("purpose")
        if purpose is None:
            raise InvalidRequest("purpose is required: it must be batch", param="purpose")
        if purpose != INPUT:
            raise Unsupported(f"purpose is {purpose[:80]!r}; only batch is supported", param="purpose")
        if byte_count == 0:
            raise InvalidRequest("the file is empty", param=FILE_FIELD)
        if byte_count > self._settings.file_max_bytes:
            raise InvalidRequest(f"the file has more than {self._settings.file_max_bytes} bytes", param=FILE_FIELD)
        now = int(time.time())
        seconds = _seconds_kept(form.fields, self._settings.file_seconds)
        return StoredFile(
            id=file_id,
            filename=form.filename or "",
            purpose=purpose,
            byte_count=byte_count,
            created=now,
            expires=now + int(seconds),
        )


async def _parts(content: BinaryIO) -> AsyncIterator[bytes]:
    while part := await on_disk(content.read, PART_BYTES):
        yield part


def _seconds_kept(fields: Mapping[str, str], default: float) -> float:
    """Returns the seconds after which a file expires. Raises InvalidRequest."""
    anchor, seconds = fields.get(_ANCHOR), fields.get(_SECONDS)
    if anchor is None and seconds is None:
        return default
    if anchor != "created_at":
        raise InvalidRequest("expires_after.anchor must be created_at", param="expires_after")
    if not _SOME_DIGITS.fullmatch(seconds or "") or not MIN_SECONDS <= int(seconds or "") <= MAX_SECONDS:
        message = f"expires_after.seconds must be an integer from {MIN_SECONDS} to {MAX_SECONDS}"
        raise InvalidRequest(message, param="expires_after")
    return int(seconds or "")


def _id_in(exchange: HttpExchange) -> str:
    return exchange.path.removeprefix(f"{_PATH}/").partition("/")[0]
