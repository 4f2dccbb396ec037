"""Keeps web pages away from an API that trusts all who can reach it, and admits the pages that the settings name.

A browser sends requests of any page to any address it can reach, the machine's own included. Three things distinguish
pages: the name that the browser looked up (Host), the page that asks (Origin), and the media type of the body, because
browsers send some types without a preflight.
"""

import re

from headrace.errors import Forbidden, InvalidRequest, UnsupportedMediaType
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.exchange import HttpExchange
from headrace.settings.web.web_names import EVERY, host_name, is_loopback, is_same_origin

PREFLIGHT_SECONDS = 600
"""Seconds for which a browser may cache the result of a preflight."""
_METHODS = "GET, HEAD, POST, PUT, DELETE"
_FIELD_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,4096}")
_JSON = re.compile(r"application/([!-~]+\+)?json\s*(;.*)?", re.IGNORECASE)


class BrowserGuard:
    """Refuses requests of pages that are not allowed, and tells browsers about allowed ones."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._hosts = frozenset(settings.allowed_hosts)
        self._origins = frozenset(settings.allowed_origins)
        bound = host_name(settings.http_address)
        self._checks_host = EVERY not in self._hosts and (bool(self._hosts) or is_loopback(bound))

    def admit(self, method: str, exchange: HttpExchange) -> bool:
        """Whether to handle the request; otherwise it is a preflight, which its headers answer already.

        Raises Forbidden, UnsupportedMediaType, and InvalidRequest unless there is exactly one Host (RFC 9112, 3.2).
        """
        if exchange.host_count != 1 and exchange.http_version != "1.0":
            raise InvalidRequest(f"the request has {exchange.host_count} Host headers: send one", param="host")
        host = exchange.header("host")
        if host is not None and self._checks_host:
            self._check_host(host)
        origin = exchange.header("origin")
        if origin is None:
            return True
        self._check_origin(origin, host or "", exchange)
        if method == "OPTIONS" and exchange.header("access-control-request-method") is not None:
            self._answer_preflight(exchange)
            return False
        if method == "POST":
            _check_media_type(exchange.header("content-type") or "")
        return True

    def _check_host(self, host: str) -> None:
        name = host_name(host)
        if not is_loopback(name) and name not in self._hosts:
            raise Forbidden(
                f"this address does not answer to the host {name!r}: use localhost, or add it to the setting "
                "gateway.allowed_hosts",
                param="host",
            )

    def _check_origin(self, origin: str, host: str, exchange: HttpExchange) -> None:
        exchange.headers["vary"] = "origin"
        if EVERY in self._origins:
            exchange.headers["access-control-allow-origin"] = EVERY
        elif origin.lower() in self._origins:
            exchange.headers["access-control-allow-origin"] = origin
        elif not is_same_origin(origin, host):
            raise Forbidden(
                f"pages of {origin!r} may not use this API: add the origin to the setting gateway.allowed_origins",
                param="origin",
            )
        else:
            return
        exchange.headers["access-control-expose-headers"] = EVERY

    def _answer_preflight(self, exchange: HttpExchange) -> None:
        wanted = exchange.header("access-control-request-headers") or ""
        exchange.headers |= {
            "access-control-allow-methods": _METHODS,
            "access-control-allow-headers": wanted if _FIELD_NAMES.fullmatch(wanted) else "content-type",
            "access-control-max-age": str(PREFLIGHT_SECONDS),
        }
        if exchange.header("access-control-request-private-network") == "true":
            exchange.headers["access-control-allow-private-network"] = "true"


def _check_media_type(content_type: str) -> None:
    """Refuses the media types that browsers send for any page without a preflight. Without a browser any type is
    accepted, because `curl --data` sends one of these by default."""
    if not _JSON.fullmatch(content_type):
        raise UnsupportedMediaType(
            f"a page must send JSON as content-type application/json, not {content_type or 'without a type'}",
            param="content-type",
        )
