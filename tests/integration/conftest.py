"""One event loop for all that share a platform in this process."""

import pytest


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"
