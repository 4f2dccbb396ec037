"""One sequence to generate or to embed, as the gateway sees it: checked, encoded, ready to be placed."""

from dataclasses import dataclass

from headrace.gateway.request.sampling import Sampling
from headrace.identity.ids import SequenceId
from headrace.rpc.deadline import Deadline
from headrace.v1.generation_pb2 import PriorityClass


@dataclass(frozen=True, slots=True)
class SequenceRequest:
    """Request to generate one sequence, and how to deliver it."""

    request_id: SequenceId
    model: str
    prompt_token_ids: list[int]
    sampling: Sampling
    deadline: Deadline
    accepted: float
    """Time at which the request was accepted, in monotonic seconds."""
    tenant: str
    priority_class: "PriorityClass.ValueType"
    traceparent: str
    tenant_weight: float = 1.0
    """Share of the tenant against others."""
    first_token_seconds: float | None = None
    """Time from accept in which the first token is wanted. None: what the class promises."""
    stop_texts: tuple[str, ...] = ()
    includes_stop_text: bool = False
    """Whether a stop text that was found stays in the result."""
    skips_special_tokens: bool = True
    use_cache: bool = False
    """Whether a remembered response may answer, and the answer be remembered."""
    embeds: bool = False
    """Whether the embedding of the prompt is wanted, and no tokens."""
    fingerprint: str = ""
    """Fingerprint of the model: see ModelFacts."""
    parent: str = ""
    """The model that `model` is with an adapter. Empty: it is a model of its own."""
