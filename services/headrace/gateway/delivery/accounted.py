"""Counts what a request to generate uses, while its pieces pass."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from headrace.gateway.access.account import Account
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.job.job import Job
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.resumption.charge import NOTHING, Charge


async def accounted(
    job: Job, sequences: Sequence[SequenceRequest], pieces: AsyncGenerator[Piece, None], paid: Charge = NOTHING
) -> AsyncGenerator[Piece, None]:
    """Yields the pieces of a job. Its tokens are reserved before the first is yielded, and its account is finished
    after the last: the client's end-of-stream bytes come later. Each prompt counts once, however often it is continued,
    and nothing counts that is paid. Raises RateLimited."""
    account, choice_count = job.envelope.account, job.options.choice_count
    prompt_count = 0 if paid.prompt_token_count else sum(map(len, job.prompts))
    paid_count = paid.output_token_count
    max_output_count = sum(sequence.sampling.max_token_count or 0 for sequence in sequences)
    max_output_count = max(0, max_output_count - paid_count)
    if len(job.prompts) == 1:
        account.note_prompt(job.prompts[0])
    cached: dict[int, int] = {}
    async with aclosing(pieces):
        piece = await _first(pieces, account, prompt_count, max_output_count)
        while piece is not None:
            new_count = max(0, len(piece.token_ids) - paid_count)
            paid_count = max(0, paid_count - len(piece.token_ids))
            account.add(new_count)
            if piece.cached_token_count and piece.choice_index % choice_count == 0:
                cached[piece.choice_index] = max(cached.get(piece.choice_index, 0), piece.cached_token_count)
            yield piece
            piece = await anext(pieces, None)
    cached_count = sum(cached.values())
    account.finish(cached_count, job.envelope.record.cached_places(cached_count))


async def _first(
    pieces: AsyncGenerator[Piece, None], account: Account, prompt_count: int, max_output_count: int
) -> Piece | None:
    """Returns the first piece of a request whose tokens are reserved. One that is expected to be granted is placed
    meanwhile, so that it need not wait for NATS; if it is refused all the same, that ends it. Raises HeadraceError."""
    reserving = account.reserve(prompt_count, max_output_count)
    if not account.may_start(prompt_count, max_output_count):
        await reserving
        return await anext(pieces, None)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(reserving)
            return await anext(pieces, None)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
