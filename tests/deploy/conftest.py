"""The compose file as `docker compose` reads it, with an empty environment where nothing else is said."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.cache.config import CacheSettings
from headrace.gateway.config import GatewaySettings
from headrace.scheduler.config import SchedulerSettings
from headrace.settings import Settings
from headrace.tokenizer.config import TokenizerSettings
from headrace.worker.config import WorkerSettings

VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<operator>:?[-?])?(?P<default>[^}]*)\}")


@pytest.fixture(scope="session")
def read_compose(root: Path) -> Callable[..., dict[str, Any]]:
    """Reads a compose file by its path in the repository, with variables of the environment."""
    return lambda path, **variables: yaml.safe_load(_interpolate((root / path).read_text(), variables))


@pytest.fixture(scope="session")
def compose(read_compose: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return read_compose("docker-compose.yml")


@pytest.fixture(scope="session")
def schemas() -> dict[str, type[Settings]]:
    """The settings of each service, by its name."""
    return {
        "gateway": GatewaySettings,
        "tokenizer": TokenizerSettings,
        "scheduler": SchedulerSettings,
        "cache": CacheSettings,
        "worker": WorkerSettings,
    }


def _interpolate(text: str, variables: Mapping[str, str]) -> str:
    """`${NAME:-default}`, `${NAME-default}`, and `${NAME:?message}` of what has to be set, which the message stands for
    here. Any other variable without a default is an error: two commands are to do."""

    def replace(match: re.Match[str]) -> str:
        if match["operator"] is None:
            raise ValueError(f"{match[0]} has no default")
        return variables.get(match["name"], match["default"])

    return VARIABLE.sub(replace, text)
