"""An engine whose draft head drafts in every step, whatever it costs, and what it drafted."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.table_model import FixedDrafter

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.speculation.drafters.head_drafter import HeadDrafter

COUNT = 3


class Seen(NamedTuple):
    """A context, the position at which that of the head begins, and what was drafted."""

    context: list[int]
    first: int
    drafted: tuple[int, ...]


class AlwaysHead(FixedDrafter):
    """COUNT draft tokens of the head wherever there is room."""

    def __init__(self, head: HeadDrafter) -> None:
        super().__init__(())
        self.head = head
        self.seen: list[Seen] = []
        self.texts: dict[str, list[int]] = {}
        """Whole outputs by request. Where one is known, some of the tokens that the model is given to verify are its
        own, as if the head knew it: none, some or all of them in turn."""
        self._turn = itertools.count()

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        wanted = {each: min(COUNT, limit, self.head.room(each)) for each, limit in limits.items()}
        drafts = self.head.propose(wanted)
        self.seen += [self._seen(sequence, found) for sequence, found in drafts.items()]
        return {sequence: self._changed(sequence, found) for sequence, found in drafts.items()}

    def _seen(self, sequence: Sequence, drafted: tuple[int, ...]) -> Seen:
        first = self.head._progress[sequence].first_block * self.head._block_size
        return Seen(sequence.context_ids(0, sequence.context_count), first, drafted)

    def _changed(self, sequence: Sequence, drafted: tuple[int, ...]) -> tuple[int, ...]:
        following = self.texts.get(sequence.request_id, [])[sequence.output_count :][: len(drafted)]
        right_count = next(self._turn) % (len(following) + 1)
        return (*following[:right_count], *drafted[right_count:])

    def forget(self, sequence: Sequence) -> None:
        self.head.forget(sequence)


def load_with_head(folder: Path, head: Path | None = None, **settings: Any) -> tuple[TextEngine, AlwaysHead]:
    """Loads an engine with a head that always drafts: that in a folder, or else the model's own layer."""
    source: dict[str, Any] = {"speculation": "mtp"} if head is None else {"speculation": "on", "draft_folder": head}
    usual: dict[str, Any] = {"exact": True, "block_count": 64, "max_step_token_count": 64, "thread_count": 1}
    engine = load_text_engine(folder, engine_config(**(usual | source | settings)))
    loaded: Any = engine
    drafter = AlwaysHead(loaded._speculator._model)
    loaded._batcher._drafts.drafter = drafter
    return engine, drafter
