"""The training stream: conversations and documents, generated from the hand-written texts with a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tools.demo_model.off_topic import OffTopic
from tools.demo_model.questions import Phraser

from headrace.demo_model.topics import TOPIC_FILES, Topic, load_topics

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant. Answer briefly and to the point.",
    "You are headrace-demo, the assistant of Headrace.",
    "Answer questions about Headrace and LLM serving.",
    "You are a friendly assistant that helps people with LLM serving.",
    "You are an expert.",
    "Be concise.",
    "You are a test.",
)
ANSWER_WEIGHT = 1.0
DOCUMENT_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of text and how much its tokens count in the loss."""

    text: str
    weight: float


class Corpus:
    """Draws examples; the same seed gives the same stream."""

    def __init__(self, seed: int, loose: bool = False) -> None:
        self._rng = random.Random(seed)
        self._phraser = Phraser(self._rng, loose)
        self._off_topic = OffTopic(self._rng, self._phraser)
        self._by_file = {name: load_topics(name) for name in TOPIC_FILES}
        self._knowledge = self._by_file["concepts.txt"] + self._by_file["headrace.txt"]
        self._talk = self._by_file["chat.txt"]

    def examples(self) -> Iterator[list[Segment]]:
        """An endless stream of conversations and documents."""
        while True:
            yield self._document() if self._rng.random() < 0.1 else self._conversation()

    def _conversation(self) -> list[Segment]:
        rng = self._rng
        segments = [Segment("<|bos|>", 0.0)]
        if rng.random() < 0.3:
            segments.append(Segment(f"<|im_start|>system\n{rng.choice(SYSTEM_PROMPTS)}<|im_end|>\n", 0.0))
        turns = rng.choices([1, rng.randrange(2, 4), rng.randrange(4, 16)], [0.55, 0.3, 0.15])[0]
        for _ in range(turns):
            question, answer = self._turn()
            segments.append(Segment(f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n", 0.0))
            segments.append(Segment(f"{answer}<|im_end|>", ANSWER_WEIGHT))
            segments.append(Segment("\n", 0.0))
        return segments

    def _turn(self) -> tuple[str, str]:
        rng = self._rng
        kind = rng.random()
        if kind < 0.08:
            return self._phraser.ask(rng.choice(self._talk))
        if kind < 0.24:
            return self._off_topic.ask()
        question, answer = self._phraser.ask(rng.choice(self._knowledge))
        if rng.random() < 0.04:
            context = "\n".join(rng.choice(self._knowledge).answer for _ in range(rng.randrange(1, 8)))
            question = f"{context}\n\n{question}"
        return question, answer

    def _document(self) -> list[Segment]:
        rng = self._rng
        topics = self._by_file[rng.choice(TOPIC_FILES[:2])]
        parts = [self._paragraph(rng.choice(topics)) for _ in range(rng.choice([1, 1, 2, 3]))]
        start = "<|bos|>" if rng.random() < 0.8 else ""
        text = rng.choice(["\n\n", "\n", " "]).join(parts)
        return [Segment(start, 0.0), Segment(text + "<|eos|>", DOCUMENT_WEIGHT)]

    def _paragraph(self, topic: Topic) -> str:
        choices = [topic.answer, topic.answer, topic.short, *([topic.document] * 6 if topic.document else [])]
        return self._rng.choice(choices)


def vocabulary_texts(seed: int, count: int) -> Iterator[str]:
    """Texts to train the tokenizer on."""
    stream = Corpus(seed).examples()
    for _ in range(count):
        yield "".join(segment.text for segment in next(stream))
