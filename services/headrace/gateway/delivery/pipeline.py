"""Path of a request through the platform: prepared, then generated, from the cache or on a worker."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from headrace.errors import InternalError
from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.accounted import accounted
from headrace.gateway.delivery.guard import Guard
from headrace.gateway.delivery.judge import Judge
from headrace.gateway.delivery.placement.sequence_placement import Places
from headrace.gateway.delivery.preparation import Preparation
from headrace.gateway.delivery.prompt_encoder import PromptEncoder
from headrace.gateway.delivery.response_memory import ResponseMemory, is_remembered
from headrace.gateway.delivery.streams.merged import merged
from headrace.gateway.delivery.streams.one_by_one import one_by_one
from headrace.gateway.delivery.streams.regrouped import regrouped
from headrace.gateway.delivery.text_stream import Piece, TextStream
from headrace.gateway.delivery.token_stream import TokenStream
from headrace.gateway.filter.answer_filter import AnswerFilter
from headrace.gateway.filter.filters import Filters
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.job.job import Job
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.request_class import class_name
from headrace.gateway.resumption.charge import NOTHING
from headrace.gateway.resumption.stream_journal import StreamJournal
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import DETOKENIZE, WAIT
from headrace.service_clients.cache import CacheClient
from headrace.service_clients.tokenizer import TokenizerClient
from headrace.v1.generation_pb2 import Embedding, FinishReason
from headrace.v1.worker_pb2 import TokenDelta

HIDDEN_TOKEN_ID = -1
"""Number in place of every token id where a filter may hide its text."""


class Pipeline:
    """Pipeline that runs the requests of every gateway API."""

    def __init__(
        self,
        settings: GatewaySettings,
        tokenizer: TokenizerClient,
        places: Places,
        cache: CacheClient,
        fleet: Fleet,
        filters: Filters | None = None,
    ) -> None:
        self.fleet = fleet
        self.encoder = PromptEncoder(tokenizer, fleet)
        self._filters = filters or Filters()
        self._settings = settings
        self._places = places
        self._responses = ResponseMemory(cache)
        self._guard = Guard(Judge(self.encoder, fleet, self._deltas).verdict)
        self.prepare = Preparation(self.encoder, fleet, self._filters, self._guard)

    def generate(self, job: Job, journal: StreamJournal | None = None) -> AsyncGenerator[Piece, None]:
        """Yields the text of all sequences as it arrives, counted on the account of the request. `journal`: follows the
        only sequence, and knows the beginning of one that is resumed. Raises HeadraceError, at first RateLimited.
        Closing the generator cancels them."""
        sequences, record = job.sequences(), job.envelope.record
        if journal is not None:
            journal.check_place(sequences[0].sampling.max_token_count)
        record.prompt_token_count = sum(map(len, job.prompts))
        record.request_class = class_name(sequences[0].priority_class)
        pieces = merged([self._pieces(job, index, sequence, journal) for index, sequence in enumerate(sequences)])
        counted = accounted(job, sequences, pieces, NOTHING if journal is None else journal.paid)
        guard = self._filters.of(job.envelope.tenant.name).guard
        return counted if guard is None or not guard.on_output else self._guard.checked(guard, job, counted)

    async def embedding(self, sequence: SequenceRequest) -> Embedding:
        """Returns the embedding of one sequence. Raises HeadraceError. Cancelling the call cancels the sequence."""
        async with aclosing(self._deltas(sequence)) as deltas:
            async for delta in deltas:
                if delta.HasField("embedding"):
                    sequence.envelope.record.stopwatch.lap(WAIT)
                    return delta.embedding
        raise InternalError(f"sequence {sequence.request_id} ended without its embedding", stage="prefill")

    async def _pieces(
        self, job: Job, index: int, sequence: SequenceRequest, journal: StreamJournal | None
    ) -> AsyncGenerator[Piece, None]:
        text, record = TextStream(sequence, job.vocabulary, index, job.style), sequence.envelope.record
        rules = self._filters.of(sequence.envelope.tenant.name)
        answer_filter = AnswerFilter(rules) if rules.on_output else None
        received = 0
        async with aclosing(self._source(sequence, journal)) as deltas:
            async for delta in deltas:
                if journal is not None:
                    journal.note(delta)
                record.note_tokens()
                piece = text.push(delta)
                piece.begin, piece.end = received, received + len(delta.token_ids)
                if received:
                    # A worker that takes over tells what it has cached of the prompt, and of the output.
                    piece.cached_token_count = 0
                received = piece.end
                if answer_filter is not None:
                    _filter(piece, answer_filter)
                _note_piece(record, piece)
                yield piece
                if piece.finish_reason:
                    return

    def _source(self, sequence: SequenceRequest, journal: StreamJournal | None) -> AsyncGenerator[TokenDelta, None]:
        """Returns the deltas of a sequence, from the beginning, also of one that is resumed."""
        if journal is None:
            return self._deltas(sequence)
        deltas = self._deltas(sequence, journal.known)
        if journal.by_token:
            return one_by_one(deltas)
        return deltas if journal.after is None else regrouped(deltas, journal.after)

    def _deltas(self, sequence: SequenceRequest, known: TokenDelta | None = None) -> AsyncGenerator[TokenDelta, None]:
        """Returns the deltas of a sequence, whose first tokens may be known."""
        if known is not None and known.finish_reason:
            return _only(known)
        own, attempts = self._settings.service_id, self._settings.max_attempts
        stream = TokenStream(sequence, own, self._places, self.fleet, attempts, known)
        remembers = is_remembered(sequence) and (known is None or not known.token_ids)
        return self._responses.deltas(sequence, stream) if remembers else stream.deltas()


async def _only(delta: TokenDelta) -> AsyncGenerator[TokenDelta, None]:
    yield delta


def _note_piece(record: RequestRecord, piece: Piece) -> None:
    record.stopwatch.lap(DETOKENIZE)
    record.output_token_count += len(piece.token_ids)
    if piece.cached_token_count:
        record.cached_token_count += piece.cached_token_count
    if piece.finish_reason:
        record.finish_reasons.append(FinishReason.Name(piece.finish_reason).rpartition("_")[2].lower())


def _filter(piece: Piece, answer_filter: AnswerFilter) -> None:
    """Leaves in a piece what may be shown."""
    part = AnswerPart(piece.reasoning, piece.text, list(piece.calls))
    shown = answer_filter.push(part, bool(piece.finish_reason))
    piece.text, piece.reasoning, piece.calls = shown.content, shown.reasoning, shown.calls
    piece.token_ids = [HIDDEN_TOKEN_ID] * len(piece.token_ids)
    if answer_filter.blocked_by:
        piece.finish_reason, piece.stop_reason = FinishReason.FINISH_REASON_CONTENT_FILTER, None
