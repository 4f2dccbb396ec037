"""Stop texts end a text at their first occurrence, however the text was cut into pieces."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.text.stop_text import StopTexts

ALPHABET = st.text("ab ", min_size=0, max_size=40)


def run(pieces: list[str], stops: list[str], includes: bool = False) -> tuple[str, str | None]:
    texts = StopTexts(stops, includes)
    shown = ""
    for piece in pieces:
        text, found = texts.push(piece)
        shown += text
        if found:
            return shown, found.stop_text
    return shown + texts.flush(), None


def cut(text: str, borders: list[int]) -> list[str]:
    points = sorted({0, len(text), *(border % (len(text) + 1) for border in borders)})
    return [text[start:end] for start, end in itertools.pairwise(points)]


@given(ALPHABET, st.lists(st.integers(0, 40)), st.lists(st.text("ab ", min_size=1, max_size=4), min_size=1, max_size=3))
def test_pieces_do_not_matter(text: str, borders: list[int], stops: list[str]) -> None:
    positions = [text.find(stop) for stop in stops if stop in text]
    expected = text[: min(positions)] if positions else text
    shown, found = run(cut(text, borders), stops)
    if not positions:
        assert (shown, found) == (text, None)
        return
    assert found in stops
    # With stop texts that overlap, the one that completes first may win; never is more shown than up to its start.
    assert text.startswith(shown)
    assert text[len(shown) :].startswith(found or "")
    if len(stops) == 1:
        assert shown == expected


@given(ALPHABET, st.lists(st.integers(0, 40)), st.text("ab ", min_size=1, max_size=4))
def test_nothing_shown_is_ever_taken_back(text: str, borders: list[int], stop: str) -> None:
    texts = StopTexts([stop], False)
    shown = ""
    for piece in cut(text, borders):
        new, found = texts.push(piece)
        shown += new
        assert stop not in shown
        if found:
            break
    assert text.startswith(shown)


def test_the_stop_text_can_be_kept() -> None:
    assert run(["one tw", "o three"], ["two"], includes=True) == ("one two", "two")


def test_without_stop_texts_nothing_is_held_back() -> None:
    assert StopTexts([], False).push("anything") == ("anything", None)
