"""The way into a gateway: finds who sends a request, from the keys of a file, or lets anyone in."""

import asyncio

from headrace.access.key_record import KeyRecord
from headrace.errors import Unauthenticated
from headrace.gateway.access.bookkeeper import Bookkeeper
from headrace.gateway.access.caller import Caller, tenant_of
from headrace.gateway.access.jwks import Jwks
from headrace.gateway.access.key_ring import SCHEME, KeyRing
from headrace.gateway.access.limits.limiter import Limiter
from headrace.gateway.access.prompt_blocks import PromptBlocks
from headrace.gateway.access.token_verifier import TOKEN_ID, TokenVerifier
from headrace.gateway.access.usage_book import UsageBook
from headrace.gateway.config import GatewaySettings


class Gate:
    """Makes callers of headers."""

    def __init__(
        self,
        keys: KeyRing | None = None,
        bookkeeper: Bookkeeper | None = None,
        tokens: TokenVerifier | None = None,
    ) -> None:
        """Without `keys` and `tokens`, neither is needed."""
        self._ring = keys
        self._tokens = tokens
        self._bookkeeper = bookkeeper or Bookkeeper()
        self._anyone = Caller(bookkeeper=self._bookkeeper)

    @property
    def _keys(self) -> KeyRing | None:
        """Keys, once there are any."""
        return None if self._ring is None or self._ring.awaits_first else self._ring

    def caller(self, authorization: str | None, api_key: str | None) -> Caller:
        """Returns who sends a request with these headers. Raises Unauthenticated."""
        if self._keys is None and self._tokens is None:
            return self._anyone
        key = self._key(authorization, api_key)
        return Caller(tenant_of(key), key, self._bookkeeper)

    def caller_later(self, key: KeyRecord | None) -> Caller:
        """Returns who sent an earlier request with a key, with the rights that the key has by now. A token keeps the
        rights that it had: its issuer is not asked again. Raises Unauthenticated."""
        if self._keys is None and self._tokens is None:
            return self._anyone
        if key is None:
            raise Unauthenticated("an API key is needed by now, and the request came without one: send it again")
        current = key if self._keys is None or self._is_of_token(key) else self._keys.current(key.id)
        return Caller(tenant_of(current), current, self._bookkeeper)

    def _is_of_token(self, key: KeyRecord) -> bool:
        is_known = self._keys is not None and key.id in self._keys
        return self._tokens is not None and key.id.startswith(TOKEN_ID) and not is_known

    def _key(self, authorization: str | None, api_key: str | None) -> KeyRecord:
        given = authorization or api_key or ""
        text = given[len(SCHEME) :].strip() if given.lower().startswith(SCHEME) else given
        if self._tokens is not None and self._tokens.is_token(text):
            return self._tokens.find(text)
        if self._keys is None:
            raise Unauthenticated("a token of the identity provider is needed: send it as Authorization: Bearer TOKEN")
        return self._keys.find(authorization, api_key)

    async def watch(self) -> None:
        """Follows the file of keys, and renews what limits hold, until cancelled."""
        following = [each.watch() for each in (self._ring, self._tokens) if each is not None]
        await asyncio.gather(self._bookkeeper.watch(), *following)

    async def close(self) -> None:
        """Writes what is left to write."""
        await self._bookkeeper.close()

    def report(self) -> dict[str, object]:
        """Reports, for people, on the keys and on who counts their limits."""
        if self._keys is None:
            return {"keys": "none needed" if self._tokens is None else "tokens of the identity provider"}
        return {"keys": self._keys.report(), "limits": self._bookkeeper.report()}


OPEN_GATE = Gate()


def open_gate(settings: GatewaySettings, limiter: Limiter) -> Gate:
    """Makes the gate that the settings describe. Raises ConfigError for files that cannot be used."""
    optional = settings.keys_optional
    keys = None if settings.keys_file is None else KeyRing(settings.keys_file, is_optional=optional)
    book = None if settings.usage_folder is None else UsageBook(settings.usage_folder, settings.service_id)
    blocks = PromptBlocks.open(book.folder) if book is not None and settings.usage_prompt_blocks else None
    tokens = TokenVerifier(settings, Jwks(settings.jwt_keys)) if settings.jwt_keys else None
    return Gate(keys, Bookkeeper(limiter, book, blocks), tokens)
