"""Request whose answer is a stream, as its journal records it."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.resumption.charge import NOTHING, Charge


@dataclass(frozen=True, slots=True)
class StreamedRequest:
    """Everything from which another gateway can run a request again."""

    key_id: str
    """Key that the request came with. Empty: none was needed."""
    path: str
    body: bytes
    headers: Mapping[str, str]
    """Headers that change what is done, by name in lower case."""
    model: str
    """Model that answers."""
    answer: AnswerName
    seed: int
    expires: float
    """Time at which the request ends at the latest, by the monotonic clock of this process."""
    charge: Charge = NOTHING
    """Tokens that are paid already."""
