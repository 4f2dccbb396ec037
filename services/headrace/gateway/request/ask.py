"""Request for work on a model, as an API has read it and before it is admitted."""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.gateway.access.caller import Caller
from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.timing.request_record import RequestRecord
from headrace.v1.generation_pb2 import PriorityClass


@dataclass(frozen=True, slots=True)
class Ask:
    """Caller, model and terms of a request. Its content stays with the API until it is prepared."""

    model: str
    caller: Caller
    record: RequestRecord
    """Record that says the client's id, the API and the kind of work."""
    seconds: float
    """Seconds that the request may take, before the limits of its key."""
    traceparent: str = ""
    priority_class: "PriorityClass.ValueType | None" = None
    """Class named outside the content. None: none was named."""
    first_token_seconds: float | None = None
    """Seconds within which the first token is wanted. None: the class decides."""
    use_cache: bool = False
    answer: AnswerName | None = None
    """Name of the answer. None: it is made of the request's id."""
    add_headers: Callable[[dict[str, str]], None] = lambda _: None
    """Takes headers of the answer: the trace, and the remainder of the key's limits."""
