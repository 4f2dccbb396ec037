"""StreamJournal of a stream that this gateway answers with."""

import asyncio
from dataclasses import replace
from types import TracebackType
from typing import Self

from headrace.domain.stream_part import StreamPart
from headrace.errors import InvalidRequest
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.resumption.charge import Charge
from headrace.gateway.resumption.event_id import EventId
from headrace.gateway.resumption.streamed_request import StreamedRequest
from headrace.gateway.resumption.translation import add_delta, copy_of, part_of, to_record
from headrace.v1.worker_pb2 import TokenDelta

MAX_TOKEN_BYTES = 1024 * 1024
"""Maximum bytes of the tokens of one journal, with their log-probabilities. Tokens beyond that are computed again where
the stream is resumed."""
MAX_REWRITES = 8
"""Number of times that a journal is written from the beginning again because caches have forgotten it."""


class StreamJournal:
    """Follows the tokens of one stream. What caches know of it may lag behind what the client has seen: the tokens
    between are computed again, and are the same."""

    def __init__(
        self,
        stream_id: str,
        request: StreamedRequest,
        envelope: Envelope,
        known: TokenDelta | None = None,
        after: EventId | None = None,
        *,
        by_token: bool = False,
    ) -> None:
        """`known`: tokens from earlier requests for the stream; `after`: the place after which it is resumed;
        `by_token`: whether its tokens are read one by one, so that the number of an event depends on them alone."""
        self.stream_id = stream_id
        self.tenant = envelope.tenant.name
        self.request = request
        self.after = after
        self.by_token = by_token
        self.known = known or TokenDelta()
        self.has_ended = False
        self.answered = asyncio.Event()
        """Event that is set once caches have the beginning of the journal, or did not answer."""
        self.failure_count = 0
        """Writes in a row that failed."""
        self._account = envelope.account
        self._tokens = copy_of(self.known)
        self._written_count = 0
        self._written_request: StreamedRequest | None = None
        self._is_finish_written = False
        self._pending: tuple[StreamedRequest, bool] = request, False
        """Request and end as they were when the last part was made."""
        self._rewrite_count = 0
        self._is_full = False
        self._is_superseded = False

    @property
    def paid(self) -> Charge:
        """Tokens that earlier requests for the stream have paid."""
        return self.request.charge

    @property
    def tokens(self) -> TokenDelta:
        """Tokens of the stream so far."""
        return self._tokens

    @property
    def is_due(self) -> bool:
        """Whether there is something to write."""
        return (
            self._written_request is not self.request
            or len(self._tokens.token_ids) > self._written_count
            or (bool(self._tokens.finish_reason) and not self._is_finish_written)
        )

    @property
    def is_over(self) -> bool:
        """Whether everything is written."""
        return self.has_ended and not self.is_due

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the request: what it has to pay is known, so that the next for this stream does not pay it again."""
        own = Charge(*self._account.bill(error))
        self.request = replace(self.request, charge=self.paid + own)
        self.has_ended = True

    def note(self, delta: TokenDelta) -> None:
        """Takes in the next tokens. Raises InvalidRequest where a newer request has resumed the stream."""
        if self._is_superseded:
            raise InvalidRequest("a newer request has resumed this stream: read it there, or resume it again")
        if not self._is_full:
            add_delta(self._tokens, delta)

    def supersede(self) -> Charge:
        """Ends the request at its next tokens, because a newer one resumes the stream here. Returns what is paid by
        then."""
        self._is_superseded = True
        return self.paid if self.has_ended else self.paid + Charge(*self._account.bill(None))

    def take_over(self, earlier: "StreamJournal") -> None:
        """Ends an earlier request for the same stream."""
        self.request = replace(self.request, charge=earlier.supersede())

    def check_place(self, max_token_count: int) -> None:
        """Raises InvalidRequest for a place that no stream of so many tokens has."""
        finished = len(self.known.token_ids) if self.known.finish_reason else None
        if self.after is not None and self.after.end > (max_token_count if finished is None else finished):
            raise impossible(self.after)

    def next_part(self) -> StreamPart:
        """Returns what is to be written next."""
        count = len(self._tokens.token_ids)
        self._pending = self.request, bool(self._tokens.finish_reason)
        is_new = count > self._written_count or (self._tokens.finish_reason and not self._is_finish_written)
        delta = part_of(self._tokens, self._written_count, count, is_first=not self._written_count, is_last=True)
        tokens = delta.SerializeToString() if is_new else b""
        if self._written_count == 0 and len(tokens) > MAX_TOKEN_BYTES:
            # Too long to be kept: a stream that is resumed is computed from the beginning.
            self._is_full, tokens, count = True, b"", 0
            self._tokens = TokenDelta()
        record = b"" if self._written_request is self.request else to_record(self.request)
        return StreamPart(self.tenant, self.stream_id, record, self._written_count, count - self._written_count, tokens)

    def note_written(self, part: StreamPart) -> None:
        """Notes that caches have a part."""
        self.answered.set()
        self.failure_count = 0
        self._written_count = part.end
        self._written_request, self._is_finish_written = self._pending
        self._is_full = self._is_full or self._tokens.ByteSize() > MAX_TOKEN_BYTES

    def note_failure(self) -> None:
        """Notes that no cache answered."""
        self.answered.set()
        self.failure_count += 1

    def note_forgotten(self) -> bool:
        """Notes that caches do not know the stream. Returns whether to write it from the beginning."""
        self._rewrite_count += 1
        self._written_count, self._written_request, self._is_finish_written = 0, None, False
        return self._rewrite_count <= MAX_REWRITES


def impossible(place: EventId) -> InvalidRequest:
    """Returns the error for an id that no event of a stream has."""
    return InvalidRequest(
        f"no event of this stream has the id {place}: send the id of the last event that came, or none for the whole "
        "stream",
        param="after",
    )
