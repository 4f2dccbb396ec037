"""Conversations of the console: branches, what two tabs write, files, and the requests that come of them."""

from pathlib import Path
from typing import Any

import pytest
from tests.services.gateway.console.console_script import NO_NODE, NODE, run_script

pytestmark = [pytest.mark.process, pytest.mark.skipif(NODE is None, reason=NO_NODE)]
Json = dict[str, Any]
WRONG = "This file holds no conversations of this console."


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Json:
    folder: Path = tmp_path_factory.mktemp("conversation")
    return dict(run_script("conversation_page.mjs", "conversation.js", None, folder))


def test_a_second_answer_is_a_branch(played: Json) -> None:
    assert played["title"] == "One question"
    assert played["branch"] == ["  One question\nof two lines", "b"]
    assert played["back"] == ["  One question\nof two lines", "a", "more"]
    assert played["versions"] == 2
    assert played["groups"] == [["a"], ["b"], ["c", "d"]]


def test_two_tabs_lose_nothing(played: Json) -> None:
    assert played["merged"] == [True, True]
    assert played["newer"] == "newer"


def test_what_is_taken_out_stays_out_until_it_is_restored(played: Json) -> None:
    assert played["removed"] == [False, False]
    assert (played["staysRemoved"], played["removedThere"]) == (False, False)
    assert played["restored"] == [True, True]


def test_a_chat_is_asked_for_with_settings_files_and_system_prompt(played: Json) -> None:
    body = played["chat"]["body"]
    assert played["chat"]["path"] == "v1/chat/completions"
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "File n.md:\n`````\nx\n````\ny\n`````\n\nq"},
        {"role": "user", "content": "r"},
    ]
    assert (body["temperature"], body["seed"]) == (0.5, 8)
    assert {"compare", "system", "max_tokens"}.isdisjoint(body)
    assert played["whole"] == "File f:\n```\nt\n```"


def test_a_base_model_continues_the_whole_text(played: Json) -> None:
    assert played["base"]["path"] == "v1/completions"
    assert played["base"]["body"]["prompt"] == "Once upon a time\nAnd then"
    assert played["base"]["body"]["max_tokens"] == 5
    assert played["baseTokens"] == 256


def test_wrong_settings_are_refused_in_words(played: Json) -> None:
    assert played["refusals"] == [
        "Temperature must be a number from 0 to 2.",
        "Top k must be a whole number.",
        f"Seed must be a number from 0 to {2**53 - 1}.",
        None,
    ]


def test_the_first_model_that_can_chat_is_taken(played: Json) -> None:
    assert played["talker"] == ["m", "b", "u"]
    assert played["kinds"] == ["embedding", "base", "chat", "chat"]


def test_conversations_travel_as_files(played: Json) -> None:
    assert (
        played["markdown"]
        == "# One question\n\n## You\n\n  One question\nof two lines\n\n## m\n\nnewer\n\n## You\n\nmore\n"
    )
    assert played["name"] == "what-is-it-really.md"
    transferred = played["transferred"]
    assert transferred["shown"] == ["  One question\nof two lines", "newer", "more"]
    assert (transferred["isNew"], transferred["title"], transferred["count"]) == (True, "One question", 8)
    assert played["wrong"] == [WRONG] * 6


def test_speed_counts_the_whole_time(played: Json) -> None:
    assert played["remarks"] == [
        "50 tokens · 25.0 tokens/s",
        "",
        "50 tokens · 25.0 tokens/s · cut at the token limit",
        "50 tokens · 25.0 tokens/s · stopped",
        "tool calls",
        "",
    ]


def test_only_small_text_files_are_attached(played: Json) -> None:
    assert played["files"] == [
        {"name": "a.txt", "text": "é"},
        "b.png is not a text file. Only text in UTF-8 can be attached.",
        "c.txt is not a text file. Only text in UTF-8 can be attached.",
        "d.txt is too large: 300 KiB, and at most 256 KiB can be attached.",
    ]
