"""The index finds what followed the same tokens last time."""

import random

from headrace.engine.speculation.ngram_index import NgramIndex


def test_the_index_repeats_what_followed_last_time() -> None:
    index = NgramIndex()
    text = [1, 2, 3, 4, 5, 1, 2, 3]
    assert index.find(text, 3) == (4, 5, 1)
    assert index.find(text, 1) == (4,)
    assert index.find([*text, 9], 8) == ()
    assert index.find([*text, 9, 1, 2, 3], 2) == (9, 1)


def test_the_index_may_be_asked_now_and_then() -> None:
    """The tokens in between are taken in; what is found is what a search through the text finds."""
    rng = random.Random(1)
    index, text = NgramIndex(), [0]
    for _ in range(300):
        text += [rng.randint(0, 2) for _ in range(rng.randint(1, 5))]
        starts = [end for end in range(3, len(text)) if text[end - 3 : end] == text[-3:] and len(text) > 2]
        expected = tuple(text[starts[-1] : starts[-1] + 4]) if starts else ()
        assert index.repeats(text) == bool(expected)
        assert index.find(text, 4) == expected
