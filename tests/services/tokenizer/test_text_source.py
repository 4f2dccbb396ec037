"""A chat template in a file replaces that of the model, and one that cannot be used says why."""

from pathlib import Path

import pytest

from headrace.demo_model import CHECKPOINT
from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.errors import InvalidCheckpoint
from headrace.tokenizer.text.text_model import text_model
from headrace.tokenizer.text_source import MAX_TEMPLATE_BYTES, TextSource

HELLO = Conversation((Message("user", "Hello"),))


def test_it_renders_conversations_with_tools_and_without(tmp_path: Path) -> None:
    path = tmp_path / "template.jinja"
    path.write_text("{% for message in messages %}<{{ message.content }}>{% endfor %}")
    model = text_model("m", TextSource(CHECKPOINT, path))
    assert model.has_chat_template
    assert model.render(HELLO) == "<Hello>"
    assert text_model("m", TextSource(CHECKPOINT)).render(HELLO) != "<Hello>"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read the chat template"),
        (b"{% for %}", "does not compile"),
        (b"\xff\xfe", "is no text in UTF-8"),
        (b" " * (MAX_TEMPLATE_BYTES + 1), "has more than"),
    ],
)
def test_one_that_cannot_be_used_says_why(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "template.jinja"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidCheckpoint, match=says):
        text_model("m", TextSource(CHECKPOINT, path))
