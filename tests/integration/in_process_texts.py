"""Works on texts where they arrive, where a tokenizer of its own would start processes for them."""

from collections.abc import Callable, Mapping
from typing import TypeVar, TypeVarTuple

from headrace.tokenizer.processes import text_jobs
from headrace.tokenizer.processes.text_pool import TextPool
from headrace.tokenizer.text.text_model import text_model
from headrace.tokenizer.text_source import TextSource

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


class InProcessTexts(TextPool):
    """TextPool without processes. Needs the main thread, whose signals bound the rendering of conversations."""

    def __init__(
        self, sources: Mapping[str, TextSource], size: int, template_seconds: float, job_seconds: float
    ) -> None:
        """`template_seconds` bounds one rendering as in a process; the others play no part."""
        self._template_seconds = template_seconds
        text_jobs._models.update({name: text_model(name, source) for name, source in sources.items()})

    def close(self) -> None:
        text_jobs._models.clear()

    async def _run(self, model: str, size: int, job: Callable[[*Ts], T], *args: *Ts) -> T:
        return job(*args)
