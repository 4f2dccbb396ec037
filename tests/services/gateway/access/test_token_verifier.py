"""Tokens of an identity provider: what is checked of them, and the rights that they give."""

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from headrace.errors import ConfigError, Unauthenticated
from headrace.gateway.access.gate import Gate
from headrace.gateway.access.jwks import Jwks
from headrace.gateway.access.token_verifier import TokenVerifier
from headrace.gateway.config import GatewaySettings

RSA = RSAKey.generate_key(2048, {"kid": "one"})
EC = ECKey.generate_key("P-256", {"kid": "two"})
STRANGER = RSAKey.generate_key(2048, {"kid": "one"})
ISSUER, AUDIENCE = "https://issuer.example", "headrace"


@pytest.fixture
def jwks_file(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(KeySet([RSA, EC]).as_dict(private=False)))
    return path


@pytest.fixture
def verifier(jwks_file: Path) -> TokenVerifier:
    settings = GatewaySettings(jwt_keys=str(jwks_file), jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
    return TokenVerifier(settings, Jwks(str(jwks_file)))


def claims(**changes: Any) -> dict[str, Any]:
    given = {"iss": ISSUER, "aud": AUDIENCE, "sub": "jane@example.com", "exp": int(time.time()) + 300} | changes
    return {name: value for name, value in given.items() if value is not None}


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str = "one", **changes: Any) -> str:
    return jwt.encode({"alg": algorithm, "kid": kid}, claims(**changes), key, algorithms=[algorithm])


@pytest.mark.parametrize(("key", "algorithm", "kid"), [(RSA, "RS256", "one"), (EC, "ES256", "two")])
def test_a_good_token_gives_its_rights(verifier: TokenVerifier, key: Any, algorithm: str, kid: str) -> None:
    token = signed(key, algorithm, kid)
    record = verifier.find(token)
    assert (record.tenant, record.scopes) == ("jane@example.com", ("generate", "embed"))
    assert verifier.find(token) is record


def test_claims_choose_tenant_scopes_and_models(verifier: TokenVerifier) -> None:
    record = verifier.find(signed(tenant="acme", scope="openid embed", models=["minilm"]))
    assert (record.tenant, record.scopes, record.models) == ("acme", ("embed",), ("minilm",))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "other"},
        {"aud": None},
        {"iss": "https://other.example"},
        {"iss": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"nbf": 100_000_000_000},
        {"sub": None},
        {"tenant": "a\nb"},
    ],
)
def test_claims_that_are_wrong_or_missing_are_refused(verifier: TokenVerifier, changes: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated, match="token"):
        verifier.find(signed(**changes))


def test_no_algorithm_but_the_allowed_ones(verifier: TokenVerifier, jwks_file: Path) -> None:
    head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').rstrip(b"=").decode()
    body = signed().split(".")[1]
    secret = OctKey.import_key(json.dumps(RSA.as_dict(private=False)))
    confused = signed(secret, "HS256")
    for token in (f"{head}.{body}.", f"{head}.{body}.{signed().split('.')[2]}", confused):
        with pytest.raises(Unauthenticated):
            verifier.find(token)


def test_other_signatures_are_refused(verifier: TokenVerifier) -> None:
    head, body, signature = signed().split(".")
    changed = base64.urlsafe_b64encode(json.dumps(claims(tenant="root")).encode()).rstrip(b"=").decode()
    for token in (
        signed(STRANGER),
        signed(kid="three"),
        f"{head}.{changed}.{signature}",
        f"{head}.{body}.AAAA",
        "a.b.c",
    ):
        with pytest.raises(Unauthenticated, match="not valid"):
            verifier.find(token)


def test_a_token_that_was_good_expires(verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    token = signed(exp=int(time.time()) + 5)
    verifier.find(token)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 100)
    with pytest.raises(Unauthenticated, match="expired"):
        verifier.find(token)


def test_a_gate_takes_tokens_and_refuses_all_else(verifier: TokenVerifier) -> None:
    gate = Gate(tokens=verifier)
    assert gate.caller(f"Bearer {signed(tenant='acme')}", None).tenant.name == "acme"
    for given in (None, "Bearer sk-12345678-abc", "Bearer "):
        with pytest.raises(Unauthenticated, match="token of the identity provider is needed"):
            gate.caller(given, None)


def test_keys_from_a_url_come_later(jwks_file: Path) -> None:
    content = jwks_file.read_bytes()

    async def check() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(content) + content)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            jwks = Jwks(f"http://127.0.0.1:{port}/jwks.json")
            settings = GatewaySettings(jwt_keys="x", jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
            verifier = TokenVerifier(settings, jwks)
            with pytest.raises(Unauthenticated, match="not known yet"):
                verifier.find(signed())
            await jwks.fetch()
            assert verifier.find(signed()).tenant == "jane@example.com"
        await jwks.fetch()
        assert verifier.find(signed()).tenant == "jane@example.com"

    asyncio.run(check())


def test_settings_that_would_let_in_too_many_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jwt_issuer"):
        GatewaySettings(jwt_keys="x", jwt_issuer=ISSUER)
    with pytest.raises(ConfigError, match="cannot read the keys"):
        Jwks(str(tmp_path / "absent.json"))
