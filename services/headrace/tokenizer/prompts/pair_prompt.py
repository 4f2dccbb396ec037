"""The prompt in which a causal model is asked whether a document fits a query."""

from collections.abc import Callable

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message

_MARK = "\u2063headrace:the document\u2063"
"""Text that no template holds, put where the document is to stand."""
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    f"<Instruct>: {INSTRUCTION}\n<Query>: "
)
_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


class PairPrompt:
    """Writes a pair as the chat template of the checkpoint does, where that has roles for both texts, as templates of
    sentence-transformers' checkpoints have; otherwise as the model card of Qwen3-Reranker says."""

    def __init__(self, render: Callable[[Conversation], str] | None) -> None:
        """`render` renders messages of the roles `query` and `document`. None: no template does."""
        self._render = render

    def around(self, query: str) -> tuple[str, str]:
        """Returns the text before the document, with the query in it, and that after it."""
        if self._render is None:
            return f"{_BEFORE}{query}\n<Document>: ", _AFTER
        pair = Message("query", query), Message("document", _MARK)
        before, _, after = self._render(Conversation(pair)).partition(_MARK)
        return before, after
