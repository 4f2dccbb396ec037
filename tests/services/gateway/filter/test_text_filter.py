"""Filters over streams: nothing that a filter hides is shown, however the text is split."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.gateway.filter.detectors.bounded_detector import BoundedDetector
from headrace.gateway.filter.detectors.pattern_set import PatternSet
from headrace.gateway.filter.detectors.personal_data import PERSONAL_DATA
from headrace.gateway.filter.detectors.word_detector import WordDetector
from headrace.gateway.filter.filter_rules import FilterRules
from headrace.gateway.filter.filters import read_filters
from headrace.gateway.filter.text_filter import TextFilter

HIDDEN = {
    "card": ["4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005", "6011111111111117"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "NO9386011117947"],
    "email": ["jane.doe+x@example.co.uk", "a@b.io"],
    "phone": ["+49 171 1234567", "(030) 1234 5678", "415-555-2671", "0711/1234567".replace("/", " ")],
    "secret": ["sk-abcdefghijklmnopqrstuvwx", "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1" * 18],
    "word": ["Project Wolpertinger", "wolpertinger"],
    "ticket": ["TICK-123456"],
}
HARMLESS = [
    "4111 1111 1111 1112 has a wrong last digit",
    "On 2026-11-22 at 10:15, 12 of 3,400 requests failed.",
    "DE00 0000 0000 is no account",
    "An e-mail address has an @ in it.",
    "wolpertingers are other animals",
    "TICK-12 is too short",
    "Version 1.85.1 and 10.0.0.1, port 8000",
    "Ein Satz mit Umlauten: Öl, Ähre, İstanbul, ß.",
]
ALL = FilterRules(
    [
        PatternSet(list(PERSONAL_DATA.values())),
        WordDetector("word", HIDDEN["word"]),
        BoundedDetector("ticket", r"TICK-[0-9]{6}", longest=11),
    ]
)
BLOCKING = FilterRules(ALL.detectors, "block")
CASES = [(name, text) for name, texts in HIDDEN.items() for text in texts]


def filtered(rules: FilterRules, *parts: str) -> str:
    text = TextFilter(rules)
    return "".join([*(text.push(part) for part in parts), text.push("", is_last=True)])


@pytest.mark.parametrize(("name", "hidden"), CASES)
@pytest.mark.parametrize("around", ["{}", "Say {} now.", "({}), and then", "First: {}\nthen more", "{}, {}"])
def test_it_is_masked_at_every_split_point(name: str, hidden: str, around: str) -> None:
    text = around.replace("{}", hidden)
    expected = around.replace("{}", f"[{name}]")
    assert filtered(ALL, text) == expected
    for at in range(len(text) + 1):
        assert filtered(ALL, text[:at], text[at:]) == expected
    assert filtered(ALL, *text) == expected


def test_a_phrase_that_begins_inside_a_word_is_none_at_any_split_point() -> None:
    text = "digit12Project Wolpertinger"
    for at in range(len(text) + 1):
        assert filtered(ALL, text[:at], text[at:]) == "digit12Project [word]"
    assert filtered(ALL, *text) == "digit12Project [word]"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("no accountjane.doe+x@example.co.ukjane.doe+x@example.co.uk4111 1111 1111 1111", "no [email][email]4111 1111"),
        ("port 8000(030) 1234 5678DE89 3704 0044 0532 0130 00", "port 8000[phone]DE89 3704 [phone]"),
    ],
)
def test_what_was_settled_hides_no_finding_that_shares_its_last_letter(text: str, whole: str) -> None:
    assert filtered(ALL, text).startswith(whole)
    for at in range(len(text) + 1):
        for later in range(at, len(text) + 1, 3):
            assert filtered(ALL, text[:at], text[at:later], text[later:]) == filtered(ALL, text), (at, later)


@pytest.mark.parametrize(("name", "hidden"), CASES)
def test_no_part_of_it_is_shown_before_it_is_whole(name: str, hidden: str) -> None:
    text = TextFilter(ALL)
    shown = "".join(text.push(character) for character in f"So: {hidden}")
    assert f"So: [{name}]".startswith(shown)


@pytest.mark.parametrize(("name", "hidden"), CASES)
def test_blocking_ends_the_text_before_it(name: str, hidden: str) -> None:
    for parts in ([f"So: {hidden} and more"], list(f"So: {hidden} and more")):
        text = TextFilter(BLOCKING)
        shown = "".join([*(text.push(part) for part in parts), text.push("", is_last=True)])
        assert (shown, text.blocked_by) == ("So: ", name)


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_passes_as_it_is(text: str) -> None:
    assert filtered(ALL, text) == text
    assert filtered(ALL, *text) == text


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_split_never_matters(data: st.DataObject) -> None:
    words = st.sampled_from([*(text for _, text in CASES), *HARMLESS, " ", "12", "-", "@", "+", "sk-", "\n", "é"])
    text = "".join(data.draw(st.lists(words, max_size=6)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert filtered(ALL, *parts) == filtered(ALL, text)
    assert filtered(BLOCKING, *parts) == filtered(BLOCKING, text)


def test_a_long_text_takes_linear_time_and_little_is_held() -> None:
    source = random.Random(3)
    text = TextFilter(ALL)
    for _ in range(20_000):
        text.push(source.choice(["word ", "and ", "12 ", "so. "]))
        assert len(text._held) < 600


def test_rules_are_read_per_tenant(tmp_path: Path) -> None:
    path = tmp_path / "filters.toml"
    path.write_text(
        '[default]\npersonal = ["email"]\n[strict]\nwords = ["secret"]\naction = "block"\noutput = false\n'
        '[[strict.patterns]]\nname = "ticket"\nregex = "T-[0-9]+"\nlongest = 8\n'
    )
    filters = read_filters(path)
    assert filters.of("anyone").names == ["email"]
    strict = filters.of("strict")
    assert strict.names == ["word", "ticket"]
    assert (strict.action, strict.on_input, strict.on_output) == ("block", True, False)
    assert not read_filters(None).of("anyone").on_output


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[default", "cannot read"),
        ('[default]\npersonal = ["shoe size"]', "default.personal"),
        ('[default]\n[[default.patterns]]\nname = "p"\nregex = "(?=x)"', "RE2"),
        ("[default]\nwhatever = 1", "default.whatever"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "filters.toml").write_text(content)
    with pytest.raises(Exception, match=says):
        read_filters(tmp_path / "filters.toml")
