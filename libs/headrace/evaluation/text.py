"""The texts for calibrating and evaluating models: a file, or one bundled with Headrace."""

from pathlib import Path

from headrace.demo_model.topics import load_topics
from headrace.errors.tree import ConfigError


def read_text(path: Path) -> str:
    """Reads the text of a file. Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as text: {error}") from error


def calibration_text() -> str:
    """Returns questions and answers about serving language models."""
    return _questions_and_answers("concepts.txt")


def evaluation_text() -> str:
    """Returns questions and answers about Headrace, none of which are in the calibration text."""
    return _questions_and_answers("headrace.txt")


def _questions_and_answers(name: str) -> str:
    """Reads a bundled file as conversations, in the chat markup of the bundled model and many others."""
    return "".join(
        f"<|im_start|>user\n{topic.questions[0]}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
        for topic in load_topics(name)
        if topic.questions
        for answer in (topic.answer, topic.document)
        if answer
    )
