"""Measures the models as anybody would load them: `python -m tools.demo_model.evaluate`."""

import argparse
import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.demo_model.topics import HeldOut, load_held_out

Message = dict[str, str]
CONTINUATIONS = ("Continuous batching is", "The scheduler is", "Speculative decoding is", "TTFT is")


class Chat:
    """A checkpoint in fp32 that answers greedily."""

    def __init__(self, folder: Path = CHECKPOINT) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.tokenizer.padding_side = "left"
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def render(self, messages: list[Message]) -> str:
        """The prompt text of a conversation."""
        text: str = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text

    def complete(self, prompts: list[str], limit: int = 128) -> list[str]:
        """Greedy continuations of raw prompts, all in one padded batch."""
        inputs = self.tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
        inputs.pop("token_type_ids", None)
        with torch.inference_mode():
            out = self.model.generate(**inputs, max_new_tokens=limit, do_sample=False)
        texts: list[str] = self.tokenizer.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        return texts

    def answer(self, questions: list[str], batch: int = 20, system: str | None = None) -> list[str]:
        """One answer for each question, each in its own conversation."""
        start = [{"role": "system", "content": system}] if system else []
        prompts = [self.render([*start, {"role": "user", "content": question}]) for question in questions]
        return [text for at in range(0, len(prompts), batch) for text in self.complete(prompts[at : at + batch])]


def is_right(item: HeldOut, answer: str) -> bool:
    """Whether the answer matches the pattern of its question."""
    return re.search(item.pattern, answer, re.IGNORECASE | re.DOTALL) is not None


def results_of(chat: Chat, items: list[HeldOut], system: str | None = None) -> list[tuple[HeldOut, str, bool]]:
    """Every question with its answer and whether that is right."""
    answers = chat.answer([item.question for item in items], system=system)
    return [(item, answer, is_right(item, answer)) for item, answer in zip(items, answers, strict=True)]


def after_long_talk(chat: Chat, turns: int) -> tuple[int, int, int]:
    """Asks the held-out questions one after another in one conversation: tokens, right, asked in the last ten."""
    items = load_held_out()[: turns + 10]
    history: list[Message] = []
    right = 0
    for at, item in enumerate(items):
        history.append({"role": "user", "content": item.question})
        answer = chat.complete([chat.render(history)])[0]
        history.append({"role": "assistant", "content": answer})
        right += is_right(item, answer) if at >= turns else 0
    tokens = len(chat.tokenizer(chat.render(history), add_special_tokens=False)["input_ids"])
    return tokens, right, len(items) - turns


def greedy_agreement(chat: Chat, draft: Any, width: int = 4) -> tuple[float, float]:
    """Share of the draft's greedy tokens that are the main model's, and tokens per step when `width` are proposed."""
    agreed = total = produced = steps = 0
    for item in load_held_out():
        prompt = chat.render([{"role": "user", "content": item.question}])
        inputs = chat.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            ids = chat.model.generate(inputs, max_new_tokens=128, do_sample=False)
            guesses = draft(ids).logits.argmax(-1)[0, inputs.shape[1] - 1 : -1]
        hits = (guesses == ids[0, inputs.shape[1] :]).tolist()
        agreed, total = agreed + sum(hits), total + len(hits)
        at = 0
        while at < len(hits):
            run = 0
            while run < width and at + run < len(hits) and hits[at + run]:
                run += 1
            at, steps = at + run + 1, steps + 1
        produced += len(hits)
    return agreed / total, produced / steps


def main() -> None:
    """Prints every held-out answer and the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    parser.add_argument("--draft", type=Path, default=DRAFT)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    chat = Chat(options.checkpoint)
    for name in ("heldout.txt", "fresh.txt"):
        for system in (None, "You are a helpful assistant.", "You are a cat."):
            results = results_of(chat, load_held_out(name), system)
            for item, answer, right in results:
                if system is None or not right:
                    print(f"{'ok  ' if right else 'FAIL'} {item.question}\n     {answer}")
            print(f"{name}, system prompt {system!r}: {sum(right for *_, right in results)} of {len(results)}\n")
    for turns in (6, 12, 20):
        tokens, good, asked = after_long_talk(chat, turns)
        print(f"after {turns} turns, up to {tokens} tokens: {good} of {asked}")
    for start in CONTINUATIONS:
        print(f"{start}{chat.complete(['<|bos|>' + start], 40)[0]}")
    if (options.draft / "config.json").exists():
        rate, per_step = greedy_agreement(chat, Chat(options.draft).model)
        print(f"draft: {rate:.1%} of the greedy tokens agree; {per_step:.2f} tokens per step with 4 proposals")


if __name__ == "__main__":
    main()
