"""Wiring of the tokenizer."""

import contextlib
import time
from collections.abc import AsyncIterator

from headrace.lifecycle import Background, OpenBus, Service, open_nats
from headrace.tokenizer.config import TokenizerSettings
from headrace.tokenizer.processes.text_pool import TextPool
from headrace.tokenizer.servicer import TokenizerServicer
from headrace.tokenizer.text.text_model import text_model
from headrace.tokenizer.text_source import TextSource
from headrace.v1 import tokenizer_pb2_grpc


@contextlib.asynccontextmanager
async def open_app(
    settings: TokenizerSettings, open_bus: OpenBus = open_nats, make_pool: type[TextPool] = TextPool
) -> AsyncIterator[Service]:
    """Loads the tokenizers and yields the service."""
    sources = {name: TextSource(path, settings.chat_templates.get(name)) for name, path in settings.models.items()}
    models = {name: text_model(name, source) for name, source in sources.items()}
    pool = make_pool(sources, settings.pool_size, settings.template_seconds, settings.job_seconds)
    servicer = TokenizerServicer(models, pool, settings.inline_characters)
    bus = open_bus(settings)
    background = Background()
    background.watch(bus.start())
    try:
        yield Service(
            kind="tokenizer",
            bus=bus,
            bind=lambda server: tokenizer_pb2_grpc.add_TokenizerServiceServicer_to_server(servicer, server),
            service_names=["headrace.v1.TokenizerService"],
            epoch=time.time_ns(),
            background=background,
        )
    finally:
        await background.close()
        pool.close()
        await bus.close()
