"""Counts what a request to generate uses, while its pieces pass."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.request.job import Job
from headrace.gateway.request.sequence_request import SequenceRequest


async def accounted(
    job: Job, sequences: Sequence[SequenceRequest], pieces: AsyncGenerator[Piece, None]
) -> AsyncGenerator[Piece, None]:
    """Yields the pieces of a job. Reserves its tokens before the first, and finishes its account after the last: what
    a client is told to be its last bytes comes later. Each prompt counts once, however often it is continued. Raises
    RateLimited."""
    account, choice_count = job.envelope.account, job.options.choice_count
    most_output_count = sum(sequence.sampling.max_token_count or 0 for sequence in sequences)
    await account.reserve(sum(map(len, job.prompts)), most_output_count)
    cached: dict[int, int] = {}
    async with aclosing(pieces):
        async for piece in pieces:
            account.add(len(piece.token_ids))
            if piece.cached_token_count and piece.choice_index % choice_count == 0:
                cached[piece.choice_index] = max(cached.get(piece.choice_index, 0), piece.cached_token_count)
            yield piece
    account.finish(sum(cached.values()))
