"""One sequence to generate or to embed, as the gateway sees it: checked, encoded, ready to be placed."""

import hashlib
import time
from dataclasses import dataclass

from headrace.domain.ids import SequenceId
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.request.envelope import Envelope
from headrace.v1.generation_pb2 import PriorityClass

MIN_FIRST_TOKEN_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class SequenceRequest:
    """Request to generate one sequence, and how to deliver it."""

    request_id: SequenceId
    envelope: Envelope
    model: ModelFacts
    prompt_token_ids: list[int]
    sampling: Sampling
    priority_class: "PriorityClass.ValueType"
    stop_texts: tuple[str, ...] = ()
    includes_stop_text: bool = False
    """Whether a stop text that was found stays in the result."""
    skips_special_tokens: bool = True
    continues_prompt: bool = False
    """Whether the output continues the text of the prompt. Otherwise it is a separate text."""
    use_cache: bool = False
    """Whether a remembered response may answer, and the answer may be remembered."""
    embeds: bool = False
    """Whether the embedding of the prompt is wanted instead of tokens."""

    cache_salt: str = ""
    """Secret that the client gave, without which nothing of the sequence is reused."""

    @property
    def block_salt(self) -> str:
        """Salt of the KV blocks: they are shared within the tenant, among requests of the same secret."""
        tenant = self.envelope.tenant.name
        if not self.cache_salt:
            return tenant
        return hashlib.blake2b(f"{len(tenant)} {tenant}{self.cache_salt}".encode()).hexdigest()

    @property
    def served_model(self) -> str:
        """The model that workers serve: without its adapter, if `model` has one."""
        return self.model.parent or self.model.model

    def first_token_seconds(self) -> float | None:
        """Seconds from now within which the first token is wanted. None: the class decides."""
        wanted = self.envelope.first_token_seconds
        if wanted is None:
            return None
        return max(MIN_FIRST_TOKEN_SECONDS, self.envelope.accepted + wanted - time.monotonic())
