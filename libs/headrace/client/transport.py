"""Protocol that reaches a platform, whichever it is."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from headrace.client.answer import Answer, Chunk
from headrace.client.findings import Embeddings, Model, Ranking
from headrace.client.options import Call, Question

Input = str | Sequence[int]
"""A text, or its token ids."""


class Transport(Protocol):
    """Makes single attempts. Every method raises HeadraceError, and ends by the deadline of its call."""

    async def answer(self, call: Call, question: Question) -> Answer: ...

    def stream(self, call: Call, question: Question) -> AsyncGenerator[Chunk, None]:
        """Yields chunks as they come, the last with a finish reason. Closing the generator cancels the request."""

    async def embed(self, call: Call, inputs: Sequence[Input], dimensions: int | None) -> Embeddings: ...

    async def rerank(
        self, call: Call, query: str, documents: Sequence[str], top_n: int | None, instruct: str
    ) -> Ranking: ...

    async def models(self, call: Call) -> list[Model]: ...

    async def read(self, call: Call, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Returns a report of the platform about itself. Raises Unsupported where it is available over HTTP only."""

    async def close(self) -> None: ...
