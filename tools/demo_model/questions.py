"""Turns topics into many phrasings: templates, polite wrappers, lower case, missing marks, light typos."""

import random

from tools.demo_model.loosen import Loosener, load_rephrased

from headrace.demo_model.topics import Topic, load_held_out, normalise

NAME_FORMS = """What is {x}?|What's {x}?|what is {x}|Explain {x}|Explain {x} to me|Can you explain {x}?
Could you explain {x}?|Could you explain {x} to me?|Tell me about {x}|Can you tell me about {x}?|Define {x}|{x}?|{x}
What does {x} mean?|What is meant by {x}?|How does {x} work?|Explain how {x} works|Could you explain how {x} works?
Describe {x}|Why does {x} matter?|Why is {x} useful?|Why do I need {x}?|Why would I want {x}?
What do you know about {x}?|I do not understand {x}|I don't get {x}, can you explain it?|What exactly is {x}?
Give me an overview of {x}|What is {x} used for?|What is {x} for?|What is {x} good for?|What's the point of {x}?
What is the purpose of {x}?|What's the role of {x}?|What is the role of {x}?|What is the benefit of {x}?
I want to learn about {x}|help me understand {x}|What is the idea behind {x}?|How is {x} used?|Tell me what {x} is
Tell me how {x} works|I keep hearing about {x}, what is it?|I read about {x}, what is that?|What is {x} in Headrace?
How does Headrace use {x}?|What do people mean by {x}?|Meaning of {x}?|Definition of {x}|What is {x} about?
What's that {x} thing?|In simple words, what is {x}?|What does {x} do?|What do I need {x} for?|describe what {x} does
explain what {x} means|what can I do with {x}?|I have a question about {x}|how should I think about {x}?"""
TASK_FORMS = """How do I {x}?|How can I {x}?|how to {x}|I want to {x}|How would I {x}?|What is the way to {x}?
Is there a way to {x}?|Can I {x}?|Can you show me how to {x}?|Tell me how to {x}|I need to {x}, how do I do that?
What do I have to do to {x}?|Please help me {x}|I would like to {x}|Steps to {x}|What is the best way to {x}?
Which command do I use to {x}?|What do I type to {x}?|Explain how to {x}|How could I {x}?|Is it possible to {x}?
I am trying to {x}|Where do I start if I want to {x}?|How does one {x}?|Show me how to {x}|What's the command to {x}?
How do I make Headrace {x}?|Could you tell me how I can {x}?|What do I do if I want to {x}?"""
BRIEF_FORMS = """{q} In one sentence.|{q} Answer in one sentence.|Briefly: {q}|{q} Keep it short.
{q} Short answer please.|In one sentence, {q}|In short, {q}|{q} Be brief.|In a few words: {q}"""
POLITE_FORMS = """Please tell me: {q}|Hi, {q}|Hello! {q}|Hey, {q}|Quick question: {q}|{q} Thanks!|{q} Thank you.
{q} Please explain.|I have a question: {q}|Sorry, {q}|One more question: {q}|Ok, {q}|And {q}|So {q}
Can you tell me {q}|I wonder, {q}|please, {q}|Now tell me: {q}|Another one: {q}|I am new to this. {q}|Do you know {q}"""


def _forms(text: str) -> list[str]:
    return [form for line in text.splitlines() for form in line.split("|")]


NAMES, TASKS, BRIEF, POLITE = (_forms(text) for text in (NAME_FORMS, TASK_FORMS, BRIEF_FORMS, POLITE_FORMS))


def lower_first(text: str) -> str:
    """The text with a small first letter, unless it starts with an acronym or `I`."""
    return text if len(text) < 2 or text[1].isupper() or text.startswith("I ") else text[0].lower() + text[1:]


class Phraser:
    """Makes random phrasings of questions and never one of the held-out questions."""

    def __init__(self, rng: random.Random, loose: bool = False) -> None:
        self._rng = rng
        self._loosener = Loosener(rng) if loose else None
        self._rephrased = load_rephrased() if loose else {}
        self._held_out = {normalise(item.question) for item in load_held_out()}

    def ask(self, topic: Topic) -> tuple[str, str]:
        """A question on the topic and the answer that fits its form."""
        while True:
            plain = self._plain(topic)
            brief = self._rng.random() < 0.12
            question = self._rng.choice(BRIEF).format(q=plain) if brief else plain
            question = self.disturb(question)
            if normalise(question) not in self._held_out:
                return question, topic.short if brief else topic.answer

    def named(self, name: str) -> str:
        """A question what `name` is."""
        return self.disturb(self._rng.choice(NAMES).format(x=name))

    def task(self, task: str) -> str:
        """A question how to do `task`."""
        return self.disturb(self._rng.choice(TASKS).format(x=task))

    def disturb(self, question: str) -> str:
        """Writes a question as hasty people do."""
        rng = self._rng
        if self._loosener:
            question = self._loosener.rewrite(question)
        if rng.random() < 0.18:
            question = rng.choice(POLITE).format(q=lower_first(question))
        if rng.random() < 0.25:
            question = question.lower()
        if rng.random() < 0.2:
            question = question.rstrip("?.!")
        if rng.random() < 0.3:
            question = question.replace("`", "")
        if rng.random() < 0.07:
            question = self._typo(question)
        return question[0].upper() + question[1:] if rng.random() < 0.5 else question

    def _plain(self, topic: Topic) -> str:
        rng = self._rng
        kinds = [
            (4.0 if topic.names else 0.0, self._name_question),
            (4.0 if topic.tasks else 0.0, self._task_question),
            (4.0 if topic.questions else 0.0, self._own_question),
        ]
        kind = rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]
        return kind(topic)

    def _name_question(self, topic: Topic) -> str:
        return self._rng.choice(NAMES).format(x=self._rng.choice(topic.names))

    def _task_question(self, topic: Topic) -> str:
        return self._rng.choice(TASKS).format(x=self._rng.choice(topic.tasks))

    def _own_question(self, topic: Topic) -> str:
        return self._rng.choice(topic.questions + self._rephrased.get(topic.key, []))

    def _typo(self, text: str) -> str:
        if len(text) < 8:
            return text
        at = self._rng.randrange(1, len(text) - 2)
        swapped = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
        dropped = text[:at] + text[at + 1 :]
        doubled = text[:at] + text[at] + text[at:]
        return self._rng.choice([swapped, dropped, doubled])
