"""Growth of an answer."""

from dataclasses import dataclass, field

from headrace.gateway.chat.reading.call_delta import CallDelta


@dataclass(slots=True)
class AnswerPart:
    """New parts of an answer, by what they are for."""

    reasoning: str = ""
    content: str = ""
    calls: list[CallDelta] = field(default_factory=list)
