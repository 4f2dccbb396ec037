"""Reads the hand-written texts below `data/`: topics with their answers, and the held-out questions."""

import re
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).parent / "data"
TOPIC_FILES = ("concepts.txt", "headrace.txt", "chat.txt")


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing the model knows: how it is called, how it is asked for, and what to say."""

    key: str
    answer: str
    short: str
    names: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    document: str = ""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A question that training never sees, and the pattern that a good answer matches."""

    question: str
    pattern: str


def _split(fields: dict[str, str], key: str) -> list[str]:
    return [part.strip() for part in fields.get(key, "").split(" | ") if part.strip()]


def _topic(block: str) -> Topic:
    head, *lines = block.strip().splitlines()
    fields: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(": ")
        fields[key] = value.strip()
    return Topic(
        key=head.strip(),
        answer=fields["answer"],
        short=fields["short"],
        names=_split(fields, "names"),
        tasks=_split(fields, "do"),
        questions=_split(fields, "ask"),
        document=fields.get("doc", ""),
    )


def load_topics(name: str) -> list[Topic]:
    """All topics of one file."""
    text = (DATA / name).read_text(encoding="utf-8")
    return [_topic(block) for block in re.split(r"^@ ", text, flags=re.MULTILINE) if block.strip()]


def load_off_topic() -> dict[str, list[str]]:
    """The lists of `offtopic.txt` by section: whole questions, words, question forms and the answer."""
    text = (DATA / "offtopic.txt").read_text(encoding="utf-8")
    sections: dict[str, list[str]] = {}
    for block in re.split(r"^@ ", text, flags=re.MULTILINE):
        if block.strip():
            head, *lines = block.strip().splitlines()
            sections[head.strip()] = [part for line in lines for part in line.split("|")]
    return sections


def load_held_out(name: str = "heldout.txt") -> list[HeldOut]:
    """The questions that are kept out of training, or the ones of another file."""
    text = (DATA / name).read_text(encoding="utf-8")
    pairs = [line.split(" => ", 1) for line in text.splitlines() if " => " in line and line[0] != "#"]
    return [HeldOut(question.strip(), pattern.strip()) for question, pattern in pairs]


def normalise(question: str) -> str:
    """A question without case and punctuation, to compare training questions with held-out ones."""
    return re.sub(r"[^a-z0-9]+", " ", question.lower()).strip()
