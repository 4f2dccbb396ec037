"""Text that a model has said stays in the conversation, however its answer ends."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.cli.terminal.chat_turns import ChatHistory


@pytest.mark.parametrize("is_waiting", [True, False])
def test_an_answer_that_is_interrupted_stays_as_far_as_it_came(
    monkeypatch: pytest.MonkeyPatch, is_waiting: bool
) -> None:
    """While the next text is waited for, or between two."""

    def stream(_self: ChatHistory, _turns: Any) -> Iterator[str]:
        yield "A headrace"
        raise KeyboardInterrupt

    monkeypatch.setattr(ChatHistory, "_stream", stream)
    history = ChatHistory("http://127.0.0.1:1/v1/chat/completions", {"model": "m"}, None)
    answer = history.ask("What is it?")
    assert next(answer) == "A headrace"
    if is_waiting:
        with pytest.raises(KeyboardInterrupt):
            next(answer)
    answer.close()
    assert [turn["content"] for turn in history.turns] == ["What is it?", "A headrace"]
    assert history.take_back() == "What is it?"
