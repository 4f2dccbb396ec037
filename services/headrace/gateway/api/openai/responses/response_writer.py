"""Writer of responses: runs the job of one, and stores the result."""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing, nullcontext

from headrace.gateway.api.entry.stream_start import StreamStart
from headrace.gateway.api.openai.response import Choice
from headrace.gateway.api.openai.responses.created_response import CreatedResponse
from headrace.gateway.api.openai.responses.response_archive import ResponseArchive
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.job.job import Job
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.resumption.journals import Journals
from headrace.gateway.resumption.stream_journal import StreamJournal


class ResponseWriter:
    """Writes the events of responses."""

    def __init__(self, pipeline: Pipeline, archive: ResponseArchive, journals: Journals | None = None) -> None:
        """`journals`: those of streams. None: another gateway cannot continue a response."""
        self._pipeline = pipeline
        self._archive = archive
        self._journals = journals

    async def events(
        self, created: CreatedResponse, envelope: Envelope, start: StreamStart | None = None
    ) -> AsyncGenerator[Json, None]:
        """Yields the events of a response. It is stored before the last one, so that a client may continue it then.
        `start`: has it journaled, or continues it."""
        events = created.events
        options = created.options if start is None else start.seeded(created.options)
        job = await self._pipeline.prepare.chat(created.body.model, created.conversation, options, envelope)
        choice = Choice(0, job.prompts[0], is_first_of_prompt=True)
        with self._journaled(created, job, start) as journal:
            async with aclosing(self._pipeline.generate(job, journal)) as pieces:
                async for piece in pieces:
                    if not choice.has_started:
                        for event in events.begin():
                            yield event
                    choice.add(piece)
                    for event in events.push(job, piece):
                        yield event
            last = list(events.end(choice))
            if created.body.background and await self._archive.is_cancelled(envelope.tenant, created.id):
                return
            if created.body.store is not False:
                created.stored.messages.append(events.answer())
                # The answer is made and paid for: a client that would send it again gains nothing from an error.
                events.response["store"] = await self._archive.put(envelope.tenant, created.stored)
        for event in last:
            yield event

    def _journaled(
        self, created: CreatedResponse, job: Job, start: StreamStart | None
    ) -> AbstractContextManager[StreamJournal | None]:
        return nullcontext() if start is None else start.journaled(self._journals, job, created.id, by_token=True)
