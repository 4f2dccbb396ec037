"""An answer does not depend on how its tokens were cut into deltas: a stream that is resumed shows the same."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId, SequenceId
from headrace.gateway.access.tenant import PUBLIC
from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.chat.reading.call_delta import joined_calls
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.delivery.text_stream import Piece, TextStream
from headrace.gateway.filter.answer_filter import AnswerFilter
from headrace.gateway.filter.detectors.bounded_detector import BoundedDetector
from headrace.gateway.filter.detectors.pattern_set import PatternSet
from headrace.gateway.filter.detectors.personal_data import PERSONAL_DATA
from headrace.gateway.filter.detectors.word_detector import WordDetector
from headrace.gateway.filter.filter_rules import FilterRules
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.text.answer_format import AnswerFormat
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import FINISH_REASON_LENGTH, FINISH_REASON_STOP, PRIORITY_CLASS_UNSPECIFIED
from headrace.v1.worker_pb2 import TokenDelta

TEXTS = (
    *("a", "b", " ", "\n", "<think>", "</think>", "<th", "ink>", "</", "think>", "4111 1111 ", "1111 1111", "secret"),
    *(
        "me",
        "@x",
        ".org",
        "<tool_call>",
        "<tool",
        "_call>",
        '\n{"name": "get_weather", "arguments": ',
        "{",
        '"city": "',
    ),
    *('Oslo"', "}", "}\n</tool_call>", "\n", "de", "f", "[", "]", '{"name": "', 'get_weather", "arguments": {"city"'),
)
PIECES = (*(text.encode() for text in TEXTS), b"\xc3", b"\xa9", b"\xe2\x82", b"\xac")
VOCABULARY = Vocabulary(PIECES, frozenset({4}), True, True, AnswerFormat("<think>", "</think>", "hermes"))
TOOLS = ToolUse((Tool("get_weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}}),))
DETECTORS = (
    PatternSet([PERSONAL_DATA[name] for name in ("card", "email", "phone", "iban", "secret")]),
    WordDetector("word", ["secret", "ab"]),
    BoundedDetector("two", "b+a", 8),
)


@dataclass(frozen=True)
class Way:
    """Treatment of the text of an answer."""

    stop_texts: tuple[str, ...]
    style: AnswerStyle | None
    rules: FilterRules | None
    reason: int


STYLES = (
    None,
    AnswerStyle(VOCABULARY, None, False, "answer"),
    AnswerStyle(VOCABULARY, TOOLS, True, "answer"),
    AnswerStyle(replace(VOCABULARY, answer_format=AnswerFormat("", "", "hermes")), TOOLS, False, "answer"),
)
WAYS = st.builds(
    Way,
    st.sampled_from([(), ("de",), ("def", "b"), ("ab a", "\n\n")]),
    st.sampled_from(STYLES),
    st.sampled_from([None, FilterRules(DETECTORS, "mask"), FilterRules(DETECTORS, "block")]),
    st.sampled_from([FINISH_REASON_LENGTH, FINISH_REASON_STOP]),
)


@dataclass(frozen=True)
class Said:
    """An answer so far."""

    text: str
    reasoning: str
    calls: tuple[object, ...]
    token_ids: tuple[int, ...]
    reasoning_token_count: int
    ended: tuple[object, ...]


class Reader:
    """Reads deltas as a pipeline does."""

    def __init__(self, way: Way) -> None:
        envelope = Envelope(RequestId("r"), 0.0, Deadline.after(5), PUBLIC, "", use_cache=False)
        request = SequenceRequest(
            SequenceId("r"), envelope, ModelFacts("m"), [1], Sampling(), PRIORITY_CLASS_UNSPECIFIED, way.stop_texts
        )
        self._stream = TextStream(request, VOCABULARY, 0, way.style)
        self._filter = None if way.rules is None else AnswerFilter(way.rules)
        self._whole = Piece()
        self.ended = False

    def push(self, delta: TokenDelta) -> None:
        """Reads a delta, unless the answer has ended."""
        if self.ended:
            return
        piece = self._stream.push(delta)
        if self._filter is not None:
            part = AnswerPart(piece.reasoning, piece.text, list(piece.calls))
            shown = self._filter.push(part, bool(piece.finish_reason))
            piece.text, piece.reasoning, piece.calls = shown.content, shown.reasoning, shown.calls
            self.ended = bool(self._filter.blocked_by)
        self._whole.add(piece)
        self.ended = self.ended or bool(piece.finish_reason)

    @property
    def said(self) -> Said:
        whole = self._whole
        blocked = self._filter is not None and self._filter.blocked_by
        calls = tuple(joined_calls(sorted(whole.calls, key=lambda call: call.index)))
        # Of what ended by a finding, the tokens are hidden.
        token_ids = () if blocked else tuple(whole.token_ids)
        count = 0 if blocked else whole.reasoning_token_count
        ended = (blocked or (whole.finish_reason, whole.stop_reason),) if self.ended else ()
        return Said(whole.text, whole.reasoning, calls, token_ids, count, ended)


def cut(token_ids: Sequence[int], cuts: Sequence[int], reason: int) -> list[TokenDelta]:
    """Tokens as deltas that end at the cuts, and at their end."""
    places = sorted({0, len(token_ids), *(place for place in cuts if place < len(token_ids))})
    parts = [TokenDelta(token_ids=token_ids[a:b]) for a, b in pairwise(places)]
    if parts:
        parts[-1].finish_reason = reason  # type: ignore[assignment]
    return parts


def spelled(*texts: str) -> list[int]:
    return [TEXTS.index(text) for text in texts]


SNIPPETS = (
    spelled("<think>", "a", " ", "secret", "\n", "</think>"),
    spelled("<th", "ink>", "b", "</", "think>", " "),
    spelled(
        "<tool_call>", '\n{"name": "get_weather", "arguments": ', "{", '"city": "', 'Oslo"', "}", "}\n</tool_call>"
    ),
    spelled("<tool", "_call>", "\n", '{"name": "', 'get_weather", "arguments": {"city"'),
    spelled("4111 1111 ", "1111 1111", " "),
    spelled("a", "@x", ".org", " "),
    spelled("de", "f"),
    [len(TEXTS), len(TEXTS) + 1, len(TEXTS) + 2, len(TEXTS) + 3],
)
TOKENS = st.lists(
    st.one_of(st.sampled_from(SNIPPETS), st.integers(0, len(PIECES) - 1).map(lambda token_id: [token_id])), max_size=20
).map(lambda parts: [token_id for part in parts for token_id in part])
CUTS = st.lists(st.integers(0, 60), max_size=40)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TOKENS, st.integers(0, 60), CUTS, CUTS, CUTS, WAYS)
def test_what_follows_a_place_depends_on_the_tokens_before_it_alone(
    token_ids: list[int], place: int, one: list[int], other: list[int], after: list[int], way: Way
) -> None:
    place = min(place, len(token_ids))
    readers = [Reader(way), Reader(way)]
    for reader, cuts in zip(readers, (one, other), strict=True):
        reason = way.reason if place == len(token_ids) else 0
        for delta in cut(token_ids[:place], cuts, reason):
            reader.push(delta)
    assert readers[0].said == readers[1].said
    for delta in cut(token_ids[place:], after, way.reason):
        for reader in readers:
            reader.push(delta)
        assert readers[0].said == readers[1].said
