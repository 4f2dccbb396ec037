"""Tokens of an identity provider (RFC 7519) in place of API keys."""

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError

from headrace.access.key_record import DEFAULT_SCOPES, NAME, SCOPES, KeyRecord
from headrace.errors import Unauthenticated
from headrace.gateway.access.jwks import Jwks
from headrace.gateway.config import GatewaySettings

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Algorithms by which a token may be signed: none of them is \"none\", and none has a shared secret."""
TOKEN_ID = "jwt"  # noqa: S105 - no secret
"""First letters of the ids of keys that are made of tokens."""
LEEWAY_SECONDS = 30
"""Seconds by which clocks may differ."""
MAX_TOKEN_LENGTH = 8192
MAX_REMEMBERED = 1024
_TOKEN = re.compile(r"[\w-]+\.[\w-]+\.[\w-]*")
_UNPRINTABLE = re.compile(r"[^A-Za-z0-9 ._@+-]")


class TokenVerifier:
    """Checks signature, algorithm, issuer, audience and times, and makes a key of the claims."""

    def __init__(self, settings: GatewaySettings, jwks: Jwks) -> None:
        self._jwks = jwks
        self._tenant_claim = settings.jwt_tenant_claim
        self._claims = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            exp={"essential": True},
            sub={"essential": True},
            iss={"essential": True, "value": settings.jwt_issuer},
            aud={"essential": True, "value": settings.jwt_audience},
        )
        self._known: OrderedDict[bytes, KeyRecord] = OrderedDict()
        """Tokens that were found good, by digest, least recently used first: a signature takes a tenth of a ms."""

    @staticmethod
    def is_token(text: str) -> bool:
        """Whether a text has the form of a token, which no API key has."""
        return len(text) <= MAX_TOKEN_LENGTH and _TOKEN.fullmatch(text) is not None

    async def watch(self) -> None:
        """Follows the keys of the issuer, until cancelled."""
        await self._jwks.watch()

    def find(self, text: str) -> KeyRecord:
        """Returns the rights that a token gives. Raises Unauthenticated."""
        digest = hashlib.sha256(text.encode()).digest()
        record = self._known.get(digest)
        if record is None or not record.is_valid(time.time() - LEEWAY_SECONDS):
            self._known.pop(digest, None)
            record = self._known[digest] = self._verified(text, digest)
        self._known.move_to_end(digest)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return record

    def _verified(self, text: str, digest: bytes) -> KeyRecord:
        if self._jwks.keys is None:
            raise Unauthenticated("the keys of the identity provider are not known yet: send it again in a few seconds")
        try:
            claims = jwt.decode(text, self._jwks.keys, algorithms=ALGORITHMS).claims
            self._claims.validate(claims)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "error", type(error).__name__)
            raise Unauthenticated(f"the token is not valid: {reason}; get another from the identity provider") from None
        return self._record(claims, digest)

    def _record(self, claims: Mapping[str, Any], digest: bytes) -> KeyRecord:
        subject = str(claims["sub"])
        tenant = str(claims.get(self._tenant_claim) or subject)
        if not NAME.fullmatch(tenant):
            raise Unauthenticated(f"the claim {self._tenant_claim} of the token is no name of a tenant")
        given = str(claims.get("scope", "")).split()
        models = claims.get("models")
        return KeyRecord(
            id=f"{TOKEN_ID}{hashlib.sha256(subject.encode()).hexdigest()[:9]}",
            name=_UNPRINTABLE.sub("_", subject)[:64].lstrip(" ._@+-") or "token",
            digest=digest.hex(),
            tenant=tenant,
            scopes=tuple(scope for scope in given if scope in SCOPES) or DEFAULT_SCOPES,
            created=float(claims.get("iat", 0)),
            expires=float(claims["exp"]),
            models=tuple(map(str, models)) if isinstance(models, list) else (),
        )
