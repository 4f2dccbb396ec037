"""The routes /headrace/models, /headrace/aliases and /headrace/pins, and vLLM's routes of adapters."""

import logging
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from headrace.domain.deadline import Deadline
from headrace.errors import Forbidden, InvalidRequest, ModelNotFound
from headrace.gateway.api.operation.models.bodies import (
    NAME,
    AdapterBody,
    AdapterNameBody,
    AliasBody,
    LoadBody,
    parse_body,
)
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.served.change_requests import ChangeRequests
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.request.client_timeout import TIMEOUT_HEADER, client_timeout
from headrace.served.loaded_adapter import LoadedAdapter
from headrace.served.loaded_source import LoadedSource
from headrace.served.served_models import ServedModels
from headrace.settings.web.web_names import host_name, is_loopback

MODELS, ALIASES, PINS = "/headrace/models", "/headrace/aliases", "/headrace/pins"
_log = logging.getLogger(__name__)


class ServedRoutes:
    """Lets holders of a key with the scope admin change what is served."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"admin"})

    def __init__(self, settings: GatewaySettings, fleet: Fleet) -> None:
        self._settings = settings
        self._is_private = is_loopback(host_name(settings.http_address))
        self._fleet = fleet
        self._changes = ChangeRequests(settings.models_file)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            MODELS: {"GET": self.show, "POST": self.load},
            f"{MODELS}/{{name}}": {"DELETE": self.unload},
            f"{ALIASES}/{{name}}": {"PUT": self.name, "DELETE": self.drop},
            f"{PINS}/{{name}}": {"PUT": self.pin, "DELETE": self.unpin},
            "/v1/load_lora_adapter": {"POST": self.load_adapter},
            "/v1/unload_lora_adapter": {"POST": self.unload_adapter},
        }

    async def show(self, exchange: HttpExchange) -> None:
        """Answers with what is served, and what was changed."""
        served = await self._changes.read()
        names = {model.model: model.parent for model in self._fleet.listed()}
        pinned = {worker.model.model: worker.is_pinned for worker in self._fleet.workers}
        models = [
            {"name": name, "adapter_of": parent or None, "pinned": pinned.get(name)} for name, parent in names.items()
        ]
        coming = sorted({*served.models, *served.adapters} - names.keys())
        await self._send(
            exchange,
            {
                "models": models,
                "loading": coming,
                "unloading": sorted(served.leaving),
                "aliases": dict(sorted(self._fleet.names.aliases.items())),
                "refused": dict(served.refused),
            },
        )

    async def load(self, exchange: HttpExchange) -> None:
        """Serves one more model, or an adapter. Answers once it is served."""
        self._check(exchange)
        body = parse_body(LoadBody, await exchange.read_body())
        if body.adapter_of:
            await self._load_adapter(exchange, body.name, body.adapter_of, body.source)
        else:
            source = LoadedSource(source=body.source, draft=body.draft, chat_template=body.chat_template)
            await self._make(exchange, "loads", body.name, lambda served: served.loading(body.name, source))
        await self._send(exchange, {"name": body.name, "state": "served"})

    async def unload(self, exchange: HttpExchange) -> None:
        """Serves a model, or an adapter, no longer."""
        self._check(exchange)
        name = _name_in(exchange, MODELS)
        await self._unload(exchange, name)
        await self._send(exchange, {"name": name, "state": "unloaded"})

    async def name(self, exchange: HttpExchange) -> None:
        """Gives a model one more name, or has a name stand for another model."""
        self._check(exchange)
        alias, body = _name_in(exchange, ALIASES), parse_body(AliasBody, await exchange.read_body())
        if not re.match(NAME, alias):
            raise InvalidRequest(f"{alias[:96]!r} cannot be the name of a model", param="name")
        self._check_served(body.model)
        await self._make(exchange, "names", alias, lambda served: served.naming(alias, body.model))
        await self._send(exchange, {"name": alias, "model": body.model})

    async def drop(self, exchange: HttpExchange) -> None:
        """Takes a further name away."""
        self._check(exchange)
        alias = _name_in(exchange, ALIASES)
        if alias not in (await self._changes.read()).aliases:
            raise ModelNotFound(f"no model was given the name {alias!r} while the platform ran", param="name")
        await self._make(exchange, "drops a name", alias, lambda served: served.dropping(alias))
        await self._send(exchange, {"name": alias, "state": "removed"})

    async def pin(self, exchange: HttpExchange) -> None:
        """Keeps a model awake, whatever other models are wanted."""
        await self._set_pin(exchange, is_pinned=True)

    async def unpin(self, exchange: HttpExchange) -> None:
        """Lets a model take turns again."""
        await self._set_pin(exchange, is_pinned=False)

    async def load_adapter(self, exchange: HttpExchange) -> None:
        """Serves an adapter."""
        self._check(exchange)
        body = parse_body(AdapterBody, await exchange.read_body())
        await self._load_adapter(exchange, body.lora_name, body.base_model_name or self._only_model(), body.lora_path)
        await exchange.send_bytes(200, f"Success: LoRA adapter '{body.lora_name}' added.".encode(), "text/plain")

    async def unload_adapter(self, exchange: HttpExchange) -> None:
        """Serves an adapter no longer."""
        self._check(exchange)
        name = parse_body(AdapterNameBody, await exchange.read_body()).lora_name
        await self._unload(exchange, name)
        await exchange.send_bytes(200, f"Success: LoRA adapter '{name}' removed.".encode(), "text/plain")

    async def _load_adapter(self, exchange: HttpExchange, name: str, model: str, source: str) -> None:
        self._check_served(model)
        adapter = LoadedAdapter(model=model, source=source)
        await self._make(exchange, "loads", name, lambda served: served.adapting(name, adapter))

    async def _unload(self, exchange: HttpExchange, name: str) -> None:
        self._check_served(name)
        await self._make(exchange, "unloads", name, lambda served: served.unloading(name))

    async def _set_pin(self, exchange: HttpExchange, *, is_pinned: bool) -> None:
        self._check(exchange)
        name = _name_in(exchange, PINS)
        self._check_served(name)
        await self._make(exchange, "pins", name, lambda served: served.pinning(name, is_pinned=is_pinned))
        await self._send(exchange, {"name": name, "pinned": is_pinned})

    def _only_model(self) -> str:
        """Returns the only model. Raises InvalidRequest where there are several."""
        models = [model.model for model in self._fleet.listed() if not model.parent]
        if len(models) != 1:
            raise InvalidRequest(f"say which of these models: {', '.join(models)}", param="base_model_name")
        return models[0]

    def _check_served(self, name: str) -> None:
        """Raises ModelNotFound."""
        if name not in self._fleet.models():
            known = ", ".join(self._fleet.models())
            raise ModelNotFound(f"no model {name[:96]!r} is served; there are: {known}", param="model")

    def _check(self, exchange: HttpExchange) -> None:
        """Raises Forbidden for anyone on a network."""
        if exchange.caller.key is None and not self._is_private:
            raise Forbidden(
                "this gateway is on the network and asks for no keys, so anyone could change what it serves: make a "
                "key with headrace keys create ADMIN --scope admin"
            )

    async def _make(
        self, exchange: HttpExchange, what: str, name: str, change: Callable[[ServedModels], ServedModels]
    ) -> None:
        by = exchange.caller.key.id if exchange.caller.key else ""
        _log.info("changes what is served", extra={"change": what, "model": name, "by": by})
        seconds = client_timeout(exchange.header(TIMEOUT_HEADER)) or self._settings.default_timeout_seconds
        await self._changes.make(name, change, Deadline.after(seconds))

    async def _send(self, exchange: HttpExchange, content: dict[str, object]) -> None:
        exchange.headers["cache-control"] = "no-store"
        await exchange.send_json(200, content)


def _name_in(exchange: HttpExchange, path: str) -> str:
    return unquote(exchange.path.removeprefix(f"{path}/"))
