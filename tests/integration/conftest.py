"""One event loop for all that share a platform in this process."""

from typing import Any

import pytest
from tests.grpc_leftovers import ANYIO_BACKEND


@pytest.fixture(scope="package")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ANYIO_BACKEND
