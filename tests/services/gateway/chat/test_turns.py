"""Conversations in a form that the template of every model takes."""

import time

from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.gateway.chat.turns import in_turns

CALL = ToolCall("c", "run", "{}")
MOMENT = 1.0
"""Seconds of processor time that any body may take here."""


def test_instructions_in_the_middle_are_joined_before_all_others() -> None:
    given = [
        Message("system", "first"),
        Message("user", "one"),
        Message("assistant", "hi"),
        Message("system", "second"),
        Message("user", "two"),
        Message("developer", "third"),
    ]
    assert in_turns(given) == (
        Message("system", "first\n\nsecond\n\nthird"),
        Message("user", "one"),
        Message("assistant", "hi"),
        Message("user", "two"),
    )


def test_what_instructions_separated_is_one_turn() -> None:
    given = [Message("user", "one"), Message("system", "x"), Message("user", "two")]
    assert in_turns(given) == (Message("system", "x"), Message("user", "one\n\ntwo"))


def test_what_one_answer_was_is_one_message_again() -> None:
    given = [Message("assistant", reasoning="r"), Message("assistant", "t"), Message("assistant", tool_calls=(CALL,))]
    assert in_turns(given) == (Message("assistant", "t", tool_calls=(CALL,), reasoning="r"),)


def test_results_of_tools_stay_apart() -> None:
    given = [Message("tool", "1", tool_call_id="a"), Message("tool", "2", tool_call_id="b")]
    assert in_turns(given) == tuple(given)


def test_instructions_of_a_developer_alone_keep_their_role() -> None:
    assert in_turns([Message("user", "u"), Message("developer", "d")])[0] == Message("developer", "d")


def test_empty_instructions_are_none() -> None:
    assert in_turns([Message("system", ""), Message("user", "u")]) == (Message("user", "u"),)


def test_a_hundred_thousand_messages_take_a_moment() -> None:
    given = [Message("user", "x", tool_calls=(CALL,)) for _ in range(100_000)]
    begun = time.process_time()
    (turn,) = in_turns(given)
    assert time.process_time() - begun < MOMENT
    assert len(turn.tool_calls) == 100_000
