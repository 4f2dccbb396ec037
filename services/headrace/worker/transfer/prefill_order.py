"""Order for the KV blocks of a prompt."""

from dataclasses import dataclass
from typing import Self

from headrace.engine.contract.request import EngineRequest, SamplingParams, Urgency
from headrace.kv.block_hash import hash_blocks


@dataclass(frozen=True, slots=True)
class PrefillOrder:
    """Everything that names the blocks, and what the caller can use of them."""

    token_ids: tuple[int, ...]
    """Tokens that the blocks are of: prompt and earlier output."""
    cache_salt: str
    adapter: str
    urgency: Urgency
    layout: str
    """Digest of what must agree: see `BlockExchange.layout`."""
    skip_count: int
    """Leading blocks that the caller has already."""
    remaining_seconds: float
    """Time for which the caller waits at most."""
    held_only: bool = False
    """Whether only blocks that are there are wanted: none is computed."""

    @classmethod
    def of(cls, request: EngineRequest, remaining_seconds: float) -> Self:
        """Makes the order for all blocks of a request's prompt and earlier output, whatever the layout."""
        token_ids = request.prompt_token_ids + request.output_token_ids
        facts = request.cache_salt, request.adapter, request.urgency
        return cls(token_ids, *facts, layout="", skip_count=0, remaining_seconds=remaining_seconds)

    def hashes(self, block_size: int) -> list[bytes]:
        """Returns the names of all blocks, skipped ones included. The last token is in none: the decoding worker has to
        compute it, because its logits are needed."""
        return hash_blocks(self.token_ids[:-1], block_size, self.cache_salt, self.adapter)

    def engine_request(self, request_id: str, token_count: int) -> EngineRequest:
        """Makes the request that computes the first `token_count` tokens and generates nothing."""
        nothing = SamplingParams(max_tokens=0)
        return EngineRequest(
            request_id,
            self.token_ids[:token_count],
            nothing,
            cache_salt=self.cache_salt,
            adapter=self.adapter,
            urgency=self.urgency,
        )
