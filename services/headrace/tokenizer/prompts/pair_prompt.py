"""The prompt in which a causal model is asked whether a document fits a query."""

from collections.abc import Callable
from functools import cached_property, partial

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.to_encode import INSTRUCT
from headrace.errors import InvalidRequest, Unsupported

_MARK = "\u2063headrace:the document\u2063"
"""Text that no template holds, put where the document is to stand."""
_OTHER_MARKS = "\u2063headrace:the query\u2063", "\u2063headrace:the instruction\u2063"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
"""Instruction of a request that has none."""
_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: '
)
_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_Writing = Callable[[str, str], Conversation]
"""Makes a conversation of a query and an instruction."""


class PairPrompt:
    """Writes a pair as the chat template of the checkpoint does, where that has roles for both texts, as templates of
    sentence-transformers' checkpoints have; otherwise as the model card of Qwen3-Reranker says."""

    def __init__(self, render: Callable[[Conversation], str] | None) -> None:
        """`render` renders messages of the roles `query` and `document`. None: no template does."""
        self._render = render

    def around(self, query: str, instruction: str = "") -> tuple[str, str]:
        """Returns the text before the document, with the query in it, and that after it. Raises Unsupported for an
        instruction that the template has no place for."""
        if self._render is None:
            return f"{_BEFORE}{instruction or INSTRUCTION}\n<Query>: {query}\n<Document>: ", _AFTER
        writing = self._instructed if instruction else _plain
        if writing is None:
            message = "the chat template of this model has no place for an instruction: leave instruct out"
            raise Unsupported(message, param=INSTRUCT)
        before, _, after = self._render(writing(query, instruction)).partition(_MARK)
        return before, after

    @cached_property
    def _instructed(self) -> _Writing | None:
        """The way in which the template takes an instruction, found by trying once. None: there is no such way."""
        if self._shows(_in_variables):
            return _in_variables
        # A template that shows messages of any role has none for instructions.
        if self._shows(_in_system_message) and not self._shows(partial(_in_message, "headrace")):
            return _in_system_message
        return None

    def _shows(self, writing: _Writing) -> bool:
        """Whether the template shows all of a conversation."""
        try:
            shown = "" if self._render is None else self._render(writing(*_OTHER_MARKS))
        except InvalidRequest:
            return False
        return all(mark in shown for mark in (_MARK, *_OTHER_MARKS))


def _plain(query: str, instruction: str) -> Conversation:
    return Conversation((Message("query", query), Message("document", _MARK)))


def _in_variables(query: str, instruction: str) -> Conversation:
    """Writes the instruction as the variables that templates of vLLM and SGLang read."""
    variables = {"instruct": instruction, "instruction": instruction}
    return Conversation(_plain(query, "").messages, template_arguments=variables)


def _in_message(role: str, query: str, instruction: str) -> Conversation:
    """Writes the instruction as a message of a role, which is the system's in templates of sentence-transformers."""
    return Conversation((Message(role, instruction), *_plain(query, "").messages))


_in_system_message = partial(_in_message, "system")
