"""Responses that later requests may read or continue, kept in the cache service, where every gateway finds them."""

import logging
import re

import msgspec

from headrace.errors import HeadraceError, NotFound
from headrace.gateway.access.tenant import Tenant
from headrace.gateway.api.openai.responses.response_object import CANCELLED, FAILED, IN_PROGRESS, QUEUED
from headrace.gateway.api.openai.responses.stored_response import StoredResponse
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.service_clients.cache import CacheClient

LIFETIME_SECONDS = 24 * 3600.0
"""Time for which a response is kept, unless newer ones need the room before."""
TIMEOUT_SECONDS = 5.0
"""Time for the cache to answer. A busy machine may take a second, and a response that is not stored cannot be
continued."""
SIGN_OF_LIFE_SECONDS = 15.0
"""Time for which a response in the background counts as running after its gateway last said so."""
_DELETED = b"null"
_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{32})_[0-9]+")
"""Ids of output items, which hold that of their response: see `item_id`."""
_PREFIX = b"response:"
_RUNNING_PREFIX = b"running-response:"
_GONE: Json = {
    "code": "server_error",
    "message": "the gateway that wrote this response has stopped before it was done: create the response again",
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredResponse | None).decode
_log = logging.getLogger(__name__)


class ResponseArchive:
    """Keeps the responses of each tenant apart."""

    def __init__(self, cache: CacheClient) -> None:
        self._cache = cache

    async def get(self, tenant: Tenant, response_id: str, param: str | None = None) -> StoredResponse:
        """Returns a response. An unfinished one that no gateway runs any more has failed. Raises NotFound, naming the
        field `param`, and Unavailable."""
        value = await self._cache.lookup_response(tenant.name, _key(response_id), TIMEOUT_SECONDS)
        stored: StoredResponse | None = None if value is None else _decode(value)
        if stored is None:
            raise NotFound(
                f"there is no response {response_id!r}: it was never stored, was deleted, or is older than a day",
                param=param,
            )
        if stored.response["status"] in (QUEUED, IN_PROGRESS) and not await self._runs(tenant, response_id):
            stored.response |= {"status": FAILED, "error": _GONE}
        return stored

    def is_abandoned(self, stored: StoredResponse) -> bool:
        """Whether a response has failed because no gateway runs it any more."""
        return stored.response["error"] is _GONE

    async def is_cancelled(self, tenant: Tenant, response_id: str) -> bool:
        """Whether a response was cancelled, as far as the archive can tell."""
        try:
            stored = await self.get(tenant, response_id)
        except HeadraceError:
            return False
        return bool(stored.response["status"] == CANCELLED)

    async def find_item(self, tenant: Tenant, item_id: str) -> Json | None:
        """Returns an item of the output of a response that is kept, if there is one. Raises Unavailable."""
        match = _ITEM_ID.fullmatch(item_id)
        try:
            stored = await self.get(tenant, f"resp_{match[1]}") if match else None
        except NotFound:
            return None
        output: list[Json] = [] if stored is None else stored.response["output"]
        return next((item for item in output if item["id"] == item_id), None)

    async def tell_running(self, tenant: Tenant, response_id: str) -> bool:
        """Says that a response is being written, which holds for SIGN_OF_LIFE_SECONDS. Returns False, which is logged,
        while the cache does not take it."""
        return await self._store(tenant, _RUNNING_PREFIX + response_id.encode(), b"", SIGN_OF_LIFE_SECONDS)

    async def put(self, tenant: Tenant, stored: StoredResponse) -> bool:
        """Keeps a response. Returns False, which is logged, while the cache does not take it: it is answered still."""
        return await self._store(tenant, _key(str(stored.response["id"])), _encode(stored), LIFETIME_SECONDS)

    async def delete(self, tenant: Tenant, response_id: str) -> None:
        """Forgets a response. Raises NotFound and Unavailable."""
        await self.get(tenant, response_id)
        await self._cache.store_response(tenant.name, _key(response_id), _DELETED, TIMEOUT_SECONDS, 1.0)

    async def _runs(self, tenant: Tenant, response_id: str) -> bool:
        sign = await self._cache.lookup_response(tenant.name, _RUNNING_PREFIX + response_id.encode(), TIMEOUT_SECONDS)
        return sign is not None

    async def _store(self, tenant: Tenant, key: bytes, value: bytes, lifetime: float) -> bool:
        try:
            await self._cache.store_response(tenant.name, key, value, TIMEOUT_SECONDS, lifetime)
        except HeadraceError as error:
            _log.warning("a response could not be stored", extra={"error": error.message})
            return False
        return True


def _key(response_id: str) -> bytes:
    return _PREFIX + response_id.encode()
