"""Cases of peers' suites: each does what docs/conformance.md says."""

import httpx2
import pytest
from tests.conformance.case import Case, Client
from tests.conformance.cases import CASES

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
async def test_a_case_is_as_the_page_says(client: httpx2.AsyncClient, case: Case) -> None:
    await case.check(Client(client))
