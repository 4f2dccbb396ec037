"""The reference of settings equals what the services and `headrace up` say of themselves."""

from pathlib import Path

import pytest

from headrace.cache.config import CacheSettings
from headrace.cli.commands.reference.settings_page import settings_page
from headrace.cli.commands.reference.up_flags import up_flags
from headrace.gateway.config import GatewaySettings
from headrace.launch.roster import SERVICE_ROLES
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.picker.config import PickerSettings
from headrace.settings.description import described
from headrace.settings.settings import Settings
from headrace.tokenizer.config import TokenizerSettings
from headrace.worker.config import WorkerSettings

SCHEMAS: dict[str, type[Settings]] = {
    "gateway": GatewaySettings,
    "tokenizer": TokenizerSettings,
    "scheduler": SchedulerSettings,
    "cache": CacheSettings,
    "worker": WorkerSettings,
}


@pytest.fixture(scope="module")
def page() -> str:
    services = [described(schema, section, [], {}) for section, schema in SCHEMAS.items()]
    return settings_page(services, [described(PickerSettings, "picker", [], {})])


def test_the_guide_has_what_the_services_say(root: Path, page: str) -> None:
    """`make settings` writes it again."""
    assert tuple(SCHEMAS) == SERVICE_ROLES
    assert (root / "docs" / "guide" / "settings.md").read_text() == page


def test_each_setting_has_a_line_with_its_variable_and_its_meaning(page: str) -> None:
    for section, schema in SCHEMAS.items():
        for name in schema.model_fields.keys() - {"failpoints"}:
            shared = all(name in other.model_fields for other in SCHEMAS.values())
            variable = f"HEADRACE_{'SERVICE' if shared else section}_{name}".upper()
            (line,) = [each for each in page.splitlines() if f"`{variable}`" in each]
            cells = line.strip("| ").split(" | ")
            assert len(cells) == 5
            assert len(cells[-1]) > 10


def test_types_have_their_bounds_and_units(page: str) -> None:
    (line,) = [each for each in page.splitlines() if "`HEADRACE_GATEWAY_MAX_BODY_BYTES`" in each]
    assert "| integer, at least 1024 | bytes | `8388608` |" in line
    (line,) = [each for each in page.splitlines() if "`HEADRACE_WORKER_LONG_CONTEXT`" in each]
    assert "| `stop` or `evict` |" in line


def test_defaults_that_differ_by_service_are_all_named(page: str) -> None:
    (line,) = [each for each in page.splitlines() if "HEADRACE_SERVICE_SERVICE_ID" in each]
    assert "gateway `gateway`" in line
    assert "worker `worker-0`" in line


def test_flags_are_those_of_up_but_for_the_hidden_one() -> None:
    """Its options of models come with them."""
    flags = {flag.names: flag for flag in up_flags()}
    assert "--in-background" not in flags
    assert flags["--detach, -d"].type == "switch"
    assert flags["--pin"].type == "text, repeatable"
    assert flags["--config"].variable == "HEADRACE_CONFIG"
    assert "--max-model-length" in flags
    assert all(flag.help for flag in flags.values())
