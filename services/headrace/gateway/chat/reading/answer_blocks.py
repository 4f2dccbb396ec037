"""Blocks of an answer, from its parts."""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.gateway.chat.reading.answer_block import AnswerBlock
from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.chat.reading.block_kind import BlockKind


@dataclass(frozen=True, slots=True)
class _Change:
    """Something that happens to a block: it begins, grows by `added`, or ends."""

    block: AnswerBlock
    begins: bool = False
    added: str = ""
    ends: bool = False


class AnswerBlocks:
    """Gathers parts of an answer into blocks, of which one is open at a time."""

    def __init__(self) -> None:
        self.all: list[AnswerBlock] = []
        self._open: AnswerBlock | None = None

    def push(self, part: AnswerPart) -> Iterator[_Change]:
        """Yields what a part changes."""
        if part.reasoning:
            yield from self._grow(BlockKind.REASONING, part.reasoning)
        if part.content:
            yield from self._grow(BlockKind.TEXT, part.content)
        for delta in part.calls:
            if delta.call_id:
                yield from self._begin(AnswerBlock(BlockKind.CALL, len(self.all), delta.call_id, delta.name))
            if delta.arguments:
                yield from self._grow(BlockKind.CALL, delta.arguments)

    def end(self) -> Iterator[_Change]:
        """Yields the end of the block that is open."""
        if self._open is not None:
            ended, self._open = self._open, None
            yield _Change(ended, ends=True)

    def _grow(self, kind: BlockKind, added: str) -> Iterator[_Change]:
        if self._open is None or self._open.kind is not kind:
            yield from self._begin(AnswerBlock(kind, len(self.all)))
        block = self.all[-1]
        block.parts.append(added)
        yield _Change(block, added=added)

    def _begin(self, block: AnswerBlock) -> Iterator[_Change]:
        yield from self.end()
        self.all.append(block)
        self._open = block
        yield _Change(block, begins=True)
