"""Responses that later requests may read or continue, kept in the cache service, where every gateway finds them."""

import logging

import msgspec

from headrace.clients.cache import CacheClient
from headrace.errors import HeadraceError, NotFound
from headrace.gateway.access.tenant import Tenant
from headrace.gateway.openai.responses.stored_response import StoredResponse

LIFETIME_SECONDS = 24 * 3600.0
"""Time for which a response is kept, unless newer ones need the room before."""
TIMEOUT_SECONDS = 5.0
"""Time for the cache to answer. A busy machine may take a second, and what is not stored then cannot be continued."""
_DELETED = b"null"
_PREFIX = b"response:"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredResponse | None).decode
_log = logging.getLogger(__name__)


class ResponseArchive:
    """Keeps the responses of each tenant apart."""

    def __init__(self, cache: CacheClient) -> None:
        self._cache = cache

    async def get(self, tenant: Tenant, response_id: str, param: str | None = None) -> StoredResponse:
        """Returns a response. Raises NotFound, naming the field `param`, and Unavailable."""
        value = await self._cache.lookup_response(tenant.name, _key(response_id), TIMEOUT_SECONDS)
        stored: StoredResponse | None = None if value is None else _decode(value)
        if stored is None:
            raise NotFound(
                f"there is no response {response_id!r}: it was never stored, was deleted, or is older than a day",
                param=param,
            )
        return stored

    async def put(self, tenant: Tenant, stored: StoredResponse) -> bool:
        """Keeps a response. Returns False, which is logged, while the cache does not take it: it is answered still."""
        key = _key(str(stored.response["id"]))
        try:
            await self._cache.store_response(tenant.name, key, _encode(stored), TIMEOUT_SECONDS, LIFETIME_SECONDS)
        except HeadraceError as error:
            _log.warning("a response could not be stored", extra={"error": error.message})
            return False
        return True

    async def delete(self, tenant: Tenant, response_id: str) -> None:
        """Forgets a response. Raises NotFound and Unavailable."""
        await self.get(tenant, response_id)
        await self._cache.store_response(tenant.name, _key(response_id), _DELETED, TIMEOUT_SECONDS, 1.0)


def _key(response_id: str) -> bytes:
    return _PREFIX + response_id.encode()
