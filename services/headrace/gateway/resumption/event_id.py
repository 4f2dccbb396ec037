"""Id of an event of a stream."""

import re
from dataclasses import dataclass

from headrace.errors import InvalidRequest

_FORM = re.compile(r"([0-9]{1,9})-([0-9]{1,9})-([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class EventId:
    """Place of an event: the delta of tokens that caused it, and its number among the events of that delta. From the
    tokens alone a gateway can make the event again."""

    begin: int
    """Tokens of the stream before the delta."""
    end: int
    """Tokens of the stream up to the end of the delta."""
    index: int
    """Index of the event among those of the delta, from 0."""

    @classmethod
    def parse(cls, text: str, param: str) -> "EventId":
        """Reads an id, as it stands in a stream. Raises InvalidRequest, naming the parameter or header."""
        found = _FORM.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise InvalidRequest(
                f"{text[:80]!r} is not the id of an event: send the id of the last event that came, such as 12-13-0, "
                "or none for the whole stream",
                param=param,
            )
        return cls(int(found[1]), int(found[2]), int(found[3]))

    def __str__(self) -> str:
        return f"{self.begin}-{self.end}-{self.index}"
