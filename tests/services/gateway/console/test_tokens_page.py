"""Tokens of an answer in the console: shaded as the hint beside them says, without the one that ends the message."""

import math
from typing import Any

import pytest
from tests.services.gateway.console.console_script import NO_NODE, NODE, run_script

pytestmark = [pytest.mark.process, pytest.mark.skipif(NODE is None, reason=NO_NODE)]
Json = dict[str, Any]
END = "<|im_end|>"
SHOWN = {"Sure": 1.0, " it": 0.6, " may": 0.1}
"""Tokens and how likely they were."""


def tokens(*texts: str) -> list[Json]:
    return [{"token": text, "logprob": math.log(SHOWN.get(text, 0.5)), "top_logprobs": []} for text in texts]


ANSWERS = [
    (tokens("Yes", ".", END), "Yes."),
    (tokens("Yes", "."), "Yes."),
    (tokens("<think>", "Hm", "</think>", "Yes", END), "Yes"),
    (tokens("Yes", END), "something else"),
    (tokens("Yes", END), ""),
]
"""Tokens of answers, and the texts that their messages have."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Json:
    given = {"shown": tokens(*SHOWN), "answers": ANSWERS}
    return dict(run_script("tokens_page.mjs", "tokens.js", given, tmp_path_factory.mktemp("tokens")))


def test_the_hint_says_how_tokens_are_shaded(page: Json) -> None:
    assert page["hint"].startswith("More strongly shaded: less likely.")
    assert page["texts"] == list(SHOWN)
    assert page["labels"] == ["Sure, 100.0%", "it, 60.0%", "may, 10.0%"]
    sure, likely, unlikely = page["shades"]
    assert sure == 0 < likely < unlikely


def test_the_token_that_ends_a_message_is_not_of_its_text(page: Json) -> None:
    assert page["ends"] == [
        ["Yes", "."],
        ["Yes", "."],
        ["<think>", "Hm", "</think>", "Yes"],
        ["Yes", END],
        ["Yes", END],
    ]
