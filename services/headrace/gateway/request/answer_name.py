"""Name of an answer, as clients see it."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AnswerName:
    """Id and time that an answer shows. They stay the same however often its stream is resumed."""

    id: str = ""
    """Id of the first request for the answer. Ids inside the answer are made of it."""
    created: float = field(default_factory=time.time)
    """Unix seconds."""
