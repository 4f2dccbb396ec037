"""A block of an answer."""

from dataclasses import dataclass, field

from headrace.gateway.chat.reading.block_kind import BlockKind


@dataclass(slots=True, eq=False)
class AnswerBlock:
    """Consecutive parts of one kind: APIs that number the parts of an answer number these."""

    kind: BlockKind
    index: int
    call_id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Text so far: reasoning, content, or the arguments of a call."""
        return "".join(self.parts)
