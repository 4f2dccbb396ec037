"""The routes of the console: its page at /, where a browser asks for it, and the files of the page."""

from collections.abc import Mapping

from headrace.errors import NotFound
from headrace.gateway.console.console_files import ConsoleFile, ConsoleFiles
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange

PATH = "/console"
HTML = "text/html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""Content security policy (CSP level 3): nothing inline, nothing from elsewhere, and no frame around the page."""
HEADERS = {
    # Asked for again every time, and answered without the content while it is the same: a new version shows at once.
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class ConsoleRoutes:
    """Serves the console. Its files need no key; what they ask the API does."""

    describe_error = staticmethod(error_body)
    scopes = None

    def __init__(self, files: ConsoleFiles | None = None) -> None:
        self._files = files or ConsoleFiles()

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {PATH: {"GET": self.show_page}, f"{PATH}/{{name}}": {"GET": self.show_file}}

    async def show_page(self, exchange: HttpExchange) -> None:
        """Answers with the page."""
        await _send(exchange, self._files.page)

    async def show_file(self, exchange: HttpExchange) -> None:
        """Answers with a file of the table. Raises NotFound for any other name."""
        file = self._files.find(exchange.path.removeprefix(f"{PATH}/"))
        if file is None:
            raise NotFound(f"the console has no such file; it has {', '.join(self._files.names)}")
        await _send(exchange, file)


def wants_page(exchange: HttpExchange) -> bool:
    """Whether a browser asks for a page to show: scripts and SDKs do not name HTML as what they accept."""
    return HTML in (exchange.header("accept") or "")


async def _send(exchange: HttpExchange, file: ConsoleFile) -> None:
    exchange.headers |= HEADERS | {"etag": file.etag}
    known = exchange.header("if-none-match") or ""
    if file.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        await exchange.send_not_modified()
    else:
        await exchange.send_bytes(200, file.content, file.media_type)
