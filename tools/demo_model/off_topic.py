"""Questions that have nothing to do with Headrace; the model answers them by saying what it is."""

import random

from tools.demo_model.questions import Phraser

from headrace.demo_model.topics import load_held_out, load_off_topic, normalise

SYLLABLES = (
    "ba be bo ca ce co da de di fa fi ga go ha hi ja ka ki la le lo ma mi mo na ne no pa pe po ra re ri sa se so"
)
ENDINGS = "l n r s t x nd st th ck ing er ism ology"


class OffTopic:
    """Draws questions that the model cannot answer."""

    def __init__(self, rng: random.Random, phraser: Phraser) -> None:
        self._rng = rng
        self._phraser = phraser
        self._lists = load_off_topic()
        self._held_out = {normalise(item.question) for item in load_held_out()}
        self.answer = self._lists["answer"][0]

    def ask(self) -> tuple[str, str]:
        """A question and the plain statement of what the model is."""
        kinds = [self._whole, self._place, self._named, self._about, self._task, self._sum, self._unknown, self._noise]
        while True:
            kind = self._rng.choices(kinds, [7, 4, 6, 3, 3, 2, 4, 1])[0]
            question = kind()
            if normalise(question) not in self._held_out:
                return question, self.answer

    def _pick(self, section: str) -> str:
        return self._rng.choice(self._lists[section])

    def _whole(self) -> str:
        return self._phraser.disturb(self._pick("whole"))

    def _place(self) -> str:
        place = self._pick("place") if self._rng.random() < 0.7 else self._word().capitalize()
        return self._phraser.disturb(self._pick("place-form").format(x=place))

    def _named(self) -> str:
        return self._phraser.named(self._pick("noun"))

    def _about(self) -> str:
        return self._phraser.disturb(self._pick("noun-form").format(x=self._noun()))

    def _task(self) -> str:
        return self._phraser.task(self._pick("task"))

    def _sum(self) -> str:
        a, b = self._rng.randrange(100), self._rng.randrange(1000)
        sign = self._rng.choice(["+", "-", "*", "/", "plus", "minus", "times", "divided by"])
        form = self._rng.choice(
            ["what is {a} {s} {b}?", "{a} {s} {b}", "calculate {a} {s} {b}", "how much is {a}{s}{b}?"]
        )
        return self._phraser.disturb(form.format(a=a, s=sign, b=b))

    def _unknown(self) -> str:
        words = " ".join(self._word() for _ in range(self._rng.choice([1, 1, 2])))
        if self._rng.random() < 0.3:
            return self._phraser.disturb(f"who {self._rng.choice(['is', 'was'])} {words.title()}?")
        return self._phraser.named(words)

    def _noise(self) -> str:
        words = self._lists["noun"] + self._lists["task"] + [self._word() for _ in range(40)]
        return " ".join(self._rng.choice(words) for _ in range(self._rng.randrange(3, 120)))

    def _noun(self) -> str:
        return self._pick("noun") if self._rng.random() < 0.6 else self._word()

    def _word(self) -> str:
        body = "".join(self._rng.choice(SYLLABLES.split()) for _ in range(self._rng.randrange(1, 4)))
        return body + self._rng.choice(ENDINGS.split())
