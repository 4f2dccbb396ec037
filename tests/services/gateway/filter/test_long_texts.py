"""Search of long texts: the same findings as in short ones, in time that no text can stretch."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from tests.services.gateway.filter.test_text_filter import ALL, CASES

from headrace.errors import ContentFiltered
from headrace.gateway.filter.detectors.finding import Finding
from headrace.gateway.filter.detectors.pattern_set import PatternSet
from headrace.gateway.filter.detectors.personal_data import PERSONAL_DATA
from headrace.gateway.filter.detectors.places import likely_places
from headrace.gateway.filter.detectors.word_detector import WordDetector
from headrace.gateway.filter.filter_rules import MAX_FINDINGS, FilterRules
from headrace.gateway.filter.input_filter import InputFilter
from headrace.gateway.filter.search_thread import SearchThread

WORDS = WordDetector("word", ["foo", "secret project", "Wolpertinger", "a", "-x-", "ß y", "İx"])
PIECES = [
    *(text for _, text in CASES),
    *("(415) 555-2671", "0711 1234567", "xoxb-1234567890ab", "-----BEGIN RSA PRIVATE KEY-----", "é4111111111111111"),
    *(" ", "  ", "-", "@", ".", "+", "(", ")", "_", "%", "\n", "\uffff", "0", "1", "12", "4", "5678", "0000"),
    *("a", "A", "é", "٣", "ß", "İ", "x.", "DE12 ", "1234 5678 ", "sk-", "gh", "(0", "(01)", "-----BEGIN "),
    *("PRIVATE KEY-----", "foo", "FOO ", "secret", "project", "-x-", " y", "secret project"),
]
WORST = {
    "card": ["1234 5678 ", "1 ", "1", "123456789012x", "é4111111111111111"],
    "iban": ["DE12 ", "DE89370400440532013001 ", "DE12DE12DE12DE12DE12DE12 "],
    "email": ["a@aaaa ", "@", ".a@", "a.", "a@.b"],
    "phone": ["0 () ()", "0", "+1 ", "+1234567 x", "234 234 ", "(0123 "],
    "secret": ["sk-", "sk-abcdefghijklmno ", "AKIA", "-----BEGIN ", "xoxb-"],
    "word": ["foo", "secret projec", "aa", ".", "a-"],
}
"""Texts that come close to a finding again and again, by detector."""
LENGTH = 2_000_000


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets findings lie across the ends of slices."""
    monkeypatch.setattr(likely_places, "SLICE", 50)


@pytest.mark.usefixtures("short_slices")
@pytest.mark.parametrize("name", PERSONAL_DATA)
def test_a_long_text_has_the_findings_that_a_short_one_has(name: str) -> None:
    source, detector = random.Random(name), PERSONAL_DATA[name]
    for _ in range(800):
        text = "".join(source.choices(PIECES, k=source.choice([3, 10, 40])))
        begin = source.choice([0, 1, 5])
        assert list(detector._find_long(text, begin)) == list(detector._find_short(text, begin)), text


@pytest.mark.usefixtures("short_slices")
def test_a_long_text_has_the_words_that_a_short_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(7)
    for _ in range(800):
        text, begin = "".join(source.choices(PIECES, k=source.choice([3, 10, 40]))), source.choice([0, 1, 5])
        short = list(WORDS.find(text, begin))
        monkeypatch.setattr("headrace.gateway.filter.detectors.word_detector.SHORT_LENGTH", -1)
        assert sorted(WORDS.find(text, begin)) == short, text
        monkeypatch.undo()
        monkeypatch.setattr(likely_places, "SLICE", 50)


@pytest.mark.alone
@pytest.mark.parametrize(("name", "piece"), [(name, piece) for name, pieces in WORST.items() for piece in pieces])
def test_no_text_takes_a_detector_long(name: str, piece: str) -> None:
    """Compares with a call of Python for each character, in turns: checks in Python take fifty times as long."""
    text = (piece * LENGTH)[:LENGTH]
    find = WORDS.find if name == "word" else PERSONAL_DATA[name].find

    def search() -> None:
        list(islice(find(text), MAX_FINDINGS))

    def call() -> None:
        deque(map(ord, "1" * LENGTH), maxlen=0)

    search()
    ratios: list[float] = []
    while not ratios or (min(ratios) >= 8 and len(ratios) < 3):
        ratios.append(_seconds(search) / _seconds(call))
    assert min(ratios) < 8


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def test_a_text_of_findings_is_blocked_instead_of_masked() -> None:
    with pytest.raises(ContentFiltered, match="card"):
        InputFilter(ALL).text("4111 1111 1111 1111, " * (MAX_FINDINGS + 1), "prompt")
    assert InputFilter(ALL).text("4111 1111 1111 1111, " * 500, "prompt") == "[card], " * 500


def test_only_as_many_findings_are_looked_for_as_matter() -> None:
    class Endless:
        names = ("endless",)

        def find(self, _text: str, _begin: int = 0) -> Iterator[Finding]:
            for at in range(10**12):
                yield Finding(at, at + 1, "endless")

        def undecided(self, _text: str) -> int:
            return 0

    assert len(FilterRules([Endless()]).findings("x")) == MAX_FINDINGS + 1


@pytest.mark.anyio
async def test_others_run_while_a_long_text_is_searched() -> None:
    rules = FilterRules([PatternSet(list(PERSONAL_DATA.values()))])
    searching = asyncio.create_task(
        SearchThread().run(LENGTH, 1, InputFilter(rules).text, "1234 5678 " * (LENGTH // 10), "prompt")
    )
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert await searching == "1234 5678 " * (LENGTH // 10)
    assert turns > 10
