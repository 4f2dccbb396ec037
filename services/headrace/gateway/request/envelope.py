"""Envelope of a request: who sent it, when, and its deadline."""

from dataclasses import dataclass, field

from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId
from headrace.gateway.access.account import Account
from headrace.gateway.access.tenant import Tenant
from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.timing.request_record import RequestRecord
from headrace.v1.generation_pb2 import PriorityClass


@dataclass(frozen=True, slots=True)
class Envelope:
    """Everything that a request carries besides its content."""

    request_id: RequestId
    accepted: float
    """Time at which the request was accepted, in monotonic seconds."""
    deadline: Deadline
    tenant: Tenant
    traceparent: str
    use_cache: bool
    priority_class: "PriorityClass.ValueType | None" = None
    """Class named outside the content, which overrides the one inside. None: none was named."""
    first_token_seconds: float | None = None
    """Seconds within which the first token is wanted. None: the class decides."""
    account: Account = field(default_factory=Account)
    """Account of what the request uses. Counts nothing unless opened at the admission of the request."""
    record: RequestRecord = field(default_factory=RequestRecord)
    """Place to note where the time goes."""
    answer: AnswerName = field(default_factory=AnswerName)
    """Name of the answer: that of an earlier request where this one resumes its stream."""

    def class_or(self, inner: "PriorityClass.ValueType") -> "PriorityClass.ValueType":
        """Returns the effective class when the content itself names `inner`: never one that the tenant may not have."""
        return self.tenant.allowed(inner if self.priority_class is None else self.priority_class)
