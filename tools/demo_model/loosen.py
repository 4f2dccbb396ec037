"""Loosens the wording of questions: other words for the same thing, left-out words, a sentence in front."""

import random
import re

from headrace.demo_model.topics import DATA

SYNONYMS = {
    "how do i": ["how can i", "how would i", "how should i", "how am i supposed to", "what do i do to"],
    "what is": ["what's", "what would be", "can you say what is", "tell me what is"],
    "what does": ["can you say what does", "tell me what"],
    "explain": ["describe", "clarify", "walk me through", "talk about", "go over"],
    "why": ["for what reason", "how come", "why exactly"],
    "which": ["what", "which one"],
    "show": ["display", "print", "list"],
    "see": ["view", "look at", "check", "find"],
    "start": ["launch", "run", "bring up", "boot"],
    "stop": ["end", "halt"],
    "platform": ["server", "system", "stack"],
    "machine": ["computer", "box", "host"],
    "model": ["language model", "checkpoint", "LLM"],
    "request": ["call", "query"],
    "answer": ["response", "reply", "output"],
    "service": ["process", "component"],
    "worker": ["worker process", "GPU worker"],
    "dies": ["crashes", "is killed", "goes down", "fails"],
    "use": ["work with", "make use of", "apply"],
    "used": ["needed", "useful"],
    "get": ["receive", "obtain", "have"],
    "command": ["tool", "thing"],
    "work": ["function", "operate"],
    "mean": ["stand for", "say"],
    "faster": ["quicker", "speedier"],
    "terminal": ["shell", "console"],
    "difference": ["distinction"],
    "purpose": ["point", "role", "job", "use"],
    "fast": ["quick"],
    "weights": ["parameters"],
    "error": ["status", "response"],
}
OPENERS = [
    "I was wondering,",
    "My colleague asked me:",
    "I just started with this.",
    "Something I never understood:",
    "For my notes,",
    "Let me ask you something.",
    "I read the documentation.",
    "We are trying this out.",
    "Next,",
    "Good.",
    "Well,",
    "I am curious,",
    "Maybe you know:",
    "Help me out here:",
    "We run this at work.",
    "I am writing a report.",
]
CLOSERS = [
    "Any idea?",
    "I am not sure.",
    "Can you help?",
    "I would like to know.",
    "Just wondering.",
    "Explain please.",
    "Tell me.",
]
SMALL = {"a", "the", "is", "do", "does", "i", "to", "of", "in", "for", "can", "you", "me", "my", "are"}


def load_rephrased() -> dict[str, list[str]]:
    """More questions by topic."""
    lines = (DATA / "rephrased.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(": ", 1) for line in lines if line and line[0] != "#"]
    return {key: [question.strip() for question in questions.split(" | ")] for key, questions in pairs}


class Loosener:
    """Rewrites questions at random; most of them stay as they are."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def rewrite(self, question: str) -> str:
        """The question in other words."""
        rng = self._rng
        if rng.random() < 0.4:
            question = self._synonyms(question)
        if rng.random() < 0.15:
            question = self._drop(question)
        if rng.random() < 0.08:
            question = f"{rng.choice(OPENERS)} {question}"
        if rng.random() < 0.05:
            question = f"{question} {rng.choice(CLOSERS)}"
        return question

    def _synonyms(self, question: str) -> str:
        found = [key for key in SYNONYMS if re.search(rf"\b{key}\b", question, re.IGNORECASE)]
        for key in self._rng.sample(found, min(len(found), self._rng.choice([1, 1, 2]))):
            word = self._rng.choice(SYNONYMS[key])
            question = re.sub(rf"\b{key}\b", word, question, count=1, flags=re.IGNORECASE)
        return question

    def _drop(self, question: str) -> str:
        words = question.split()
        small = [at for at, word in enumerate(words) if word.lower() in SMALL]
        if len(words) > 3 and small:
            del words[self._rng.choice(small)]
        return " ".join(words)
