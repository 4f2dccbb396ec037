"""The page of conformance says what is tried."""

from tests.conformance.cases import CASES
from tests.conformance.page import PAGE, written


def test_the_page_is_that_of_the_cases() -> None:
    assert PAGE.read_text() == written()


def test_no_case_stands_twice() -> None:
    titles = [case.title for case in CASES]
    assert len(set(titles)) == len(titles) > 30
