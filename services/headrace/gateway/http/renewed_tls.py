"""TLS of the REST bridge that follows its files."""

import ssl

import uvicorn
from uvicorn.config import create_ssl_context

from headrace.security.public_pair import PublicPair


class RenewedTls:
    """Gives each connection the newest certificate. Connections that are open keep theirs."""

    def __init__(self, config: uvicorn.Config, pair: PublicPair) -> None:
        """`config`: loaded, with the pair's files."""
        self._config = config
        self._pair = pair
        self._newest: ssl.SSLContext | None = None
        """Context of renewed files. None: the server has the files that it was started with."""
        if config.ssl is not None:
            # Called for every handshake, whether the client names a host or not.
            config.ssl.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _host: str | None, _context: ssl.SSLContext) -> None:
        if self._pair.renewed():
            self._newest = self._made()
        if self._newest is not None:
            connection.context = self._newest

    def _made(self) -> ssl.SSLContext:
        config = self._config
        return create_ssl_context(
            certfile=self._pair.certificate,
            keyfile=self._pair.key,
            password=None,
            ssl_version=config.ssl_version,
            cert_reqs=config.ssl_cert_reqs,
            ca_certs=None,
            ciphers=config.ssl_ciphers,
        )
