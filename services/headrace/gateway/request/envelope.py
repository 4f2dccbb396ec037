"""The envelope of a request: who sent it, when, and until when it is worth anything."""

from dataclasses import dataclass

from headrace.gateway.request.tenants import Tenant
from headrace.identity.ids import RequestId
from headrace.rpc.deadline import Deadline
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
    """The class that was named beside the content, which goes before the one inside. None: none was."""
    first_token_seconds: float | None = None
    """Time in which the first token is wanted. None: what the class promises."""

    def class_or(self, inner: "PriorityClass.ValueType") -> "PriorityClass.ValueType":
        """The class that counts, where the content itself names `inner`: none that the tenant may not have."""
        return self.tenant.allowed(inner if self.priority_class is None else self.priority_class)
