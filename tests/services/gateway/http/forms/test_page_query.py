"""Pages of a list."""

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.http.forms.page_query import read_page_query

ALL = ("after", "limit", "order", "purpose")


class Entry:
    def __init__(self, name: str) -> None:
        self.name = name

    def described(self) -> dict[str, str]:
        return {"id": self.name}


def test_a_page_says_whether_there_is_more() -> None:
    query = read_page_query(b"limit=2&after=z&order=asc", ALL, 20, 100)
    assert (query.after, query.order, query.purpose) == ("z", "asc", None)
    page = query.page(map(Entry, "abc"))
    assert ([entry["id"] for entry in page["data"]], page["has_more"], page["last_id"]) == (["a", "b"], True, "b")
    last = query.page(map(Entry, "ab"))
    assert (len(last["data"]), last["has_more"]) == (2, False)
    assert query.page([])["first_id"] is None


@pytest.mark.parametrize("query", [b"limit=0", b"limit=101", b"limit=-1", b"limit=x", b"limit=", b"order=up", b"a=1"])
def test_what_makes_no_sense_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_page_query(query, ALL, 20, 100)
