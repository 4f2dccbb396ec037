"""Begin of a stream of events, or of the rest of one."""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from headrace.gateway.api.entry.http_admission import TERMS
from headrace.gateway.http.exchange import HttpExchange
from headrace.gateway.job.job import Job, Options
from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.resumption.journals import Journals
from headrace.gateway.resumption.resumption import Resumption
from headrace.gateway.resumption.stream_journal import StreamJournal
from headrace.gateway.resumption.streamed_request import StreamedRequest


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Request for a stream, and the exchange that takes the events."""

    exchange: HttpExchange
    path: str
    body: bytes
    resumption: Resumption | None = None
    """Stream of which the rest is wanted. None: it is a new one."""

    @property
    def answer(self) -> AnswerName | None:
        """Name of the answer, where it has one already."""
        return None if self.resumption is None else self.resumption.request.answer

    def seeded(self, options: Options) -> Options:
        """Returns options with the seed that the stream began with."""
        if self.resumption is None:
            return options
        return replace(options, sampling=replace(options.sampling, seed=self.resumption.request.seed))

    def journaled(
        self, journals: Journals | None, job: Job, stream_id: str, *, by_token: bool = False
    ) -> AbstractContextManager[StreamJournal | None]:
        """Follows the stream in a block. None: it cannot be resumed, because it has several choices, or its request is
        too large to be kept, or the gateway keeps none. `by_token`: see StreamJournal."""
        is_single = len(job.prompts) * job.options.choice_count == 1
        if journals is None or not is_single or not journals.takes(self.body):
            return nullcontext()
        return journals.opened(stream_id, self._request(job), job.envelope, self.resumption, by_token=by_token)

    def _request(self, job: Job) -> StreamedRequest:
        key = self.exchange.caller.key
        given = {name: self.exchange.header(name) for name in TERMS}
        return StreamedRequest(
            key_id=key.id if key else "",
            path=self.path,
            body=self.body,
            headers={name: value for name, value in given.items() if value is not None},
            model=job.model.model,
            answer=job.envelope.answer,
            seed=job.options.sampling.seed or 0,
            expires=time.monotonic() + job.envelope.deadline.remaining,
        )
