"""Text and tokens of an answer do not depend on how many tokens come at once."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId, SequenceId
from headrace.gateway.access.tenant import PUBLIC
from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.delivery.text_stream import Piece, TextStream
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.text.answer_format import AnswerFormat
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import (
    FINISH_REASON_LENGTH,
    FINISH_REASON_UNSPECIFIED,
    PRIORITY_CLASS_UNSPECIFIED,
    TokenLogprob,
)
from headrace.v1.worker_pb2 import TokenDelta

LETTERS = Vocabulary(tuple(bytes([97 + index]) for index in range(26)), frozenset(), False, False)
TEXT = "abcdefgh"


def request(*stop_texts: str) -> SequenceRequest:
    envelope = Envelope(RequestId("r"), 0.0, Deadline.after(5), PUBLIC, "", use_cache=False)
    unspecified = PRIORITY_CLASS_UNSPECIFIED
    return SequenceRequest(
        SequenceId("r"), envelope, ModelFacts("m"), [1], Sampling(), unspecified, stop_texts=stop_texts
    )


def deltas(size: int) -> Iterator[TokenDelta]:
    """The text as tokens, `size` of them at a time."""
    token_ids = [ord(letter) - 97 for letter in TEXT]
    for start in range(0, len(token_ids), size):
        chunk = token_ids[start : start + size]
        last = start + size >= len(token_ids)
        reason = FINISH_REASON_LENGTH if last else FINISH_REASON_UNSPECIFIED
        yield TokenDelta(token_ids=chunk, logprobs=[TokenLogprob() for _ in chunk], finish_reason=reason)


def pieces_of(size: int, *stop_texts: str) -> list[Piece]:
    """Pieces up to the one that ends the sequence."""
    stream = TextStream(request(*stop_texts), LETTERS)
    pieces: list[Piece] = []
    for delta in deltas(size):
        pieces.append(stream.push(delta))
        if pieces[-1].finish_reason:
            break
    return pieces


@pytest.mark.parametrize("stop_texts", [("de",), ("d",), ("h",), ("cdef", "d"), ("x",), ()])
def test_any_number_of_tokens_at_once_gives_the_same_answer(stop_texts: tuple[str, ...]) -> None:
    answers = set()
    for size in range(1, len(TEXT) + 1):
        pieces = pieces_of(size, *stop_texts)
        token_ids = tuple(token_id for piece in pieces for token_id in piece.token_ids)
        assert sum(len(piece.logprobs) for piece in pieces) == len(token_ids)
        text = "".join(piece.text for piece in pieces)
        answers.add((text, token_ids, pieces[-1].finish_reason, pieces[-1].stop_reason))
    assert len(answers) == 1


def test_the_token_that_completes_a_stop_text_is_the_last() -> None:
    pieces = pieces_of(8, "de")
    assert (pieces[0].text, pieces[0].token_ids) == ("abc", [0, 1, 2, 3, 4])


def content_before(stop_text: str, *, includes_stop_text: bool) -> str:
    """The content of an answer that begins a call, up to a stop text."""
    written = (b"I look. ", b"<|tool_calls_section_begin|>", b"<|tool_call_begin|>", b"functions.now", b":0")
    vocabulary = Vocabulary(written, frozenset({1, 2}), False, True, AnswerFormat("kimi-k2"))
    wanted = replace(request(stop_text), includes_stop_text=includes_stop_text)
    stream = TextStream(wanted, vocabulary, style=AnswerStyle(vocabulary, ToolUse((Tool("now"),))))
    content = ""
    for token_id in range(len(written)):
        piece = stream.push(TokenDelta(token_ids=[token_id]))
        content += piece.text
        if piece.finish_reason:
            break
    assert piece.stop_reason == stop_text
    return content


def test_a_stop_text_within_a_call_leaves_nothing_of_it_in_the_content() -> None:
    assert content_before(":0", includes_stop_text=False) == "I look."


def test_a_stop_text_that_the_client_wants_to_see_stays() -> None:
    assert content_before("<|tool_call_begin|>", includes_stop_text=True).endswith("<|tool_call_begin|>")


@pytest.mark.parametrize(
    ("stop_text", "content"),
    [("nswer>", ""), ("\n</answer>", "Two"), ("</answer>", "Two\n"), ("/an", "Two"), ("wo", "T")],
)
@pytest.mark.parametrize("thought", ["", "hm"])
def test_a_stop_text_leaves_nothing_of_the_marks_around_an_answer(stop_text: str, content: str, thought: str) -> None:
    text = f"<think>{thought}</think>\n<answer>\nTwo\n</answer>" if thought else "<answer>\nTwo\n</answer>"
    written = tuple(character.encode() for character in text)
    vocabulary = Vocabulary(written, frozenset(), False, True, AnswerFormat("hunyuan", "<think>", "</think>"))
    stream = TextStream(request(stop_text), vocabulary, style=AnswerStyle(vocabulary))
    piece = stream.push(TokenDelta(token_ids=range(len(written))))
    assert (piece.stop_reason, piece.text, piece.reasoning) == (stop_text, content, thought)
