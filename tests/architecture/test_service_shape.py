"""All five services have one shape: the same four files, and the same two doors to the bus."""

from pathlib import Path

import pytest
from tests.architecture.test_imports import imports_of

SERVICES = ["gateway", "tokenizer", "scheduler", "cache", "worker"]
DOORS = ["subscriber.py", "publisher.py", "app.py"]
"""Files of a service that may import the bus: what it subscribes to, what it publishes, and their wiring."""
STORES = ["scheduler/leases.py", "gateway/access/limits/shared_budgets.py", "gateway/batches/batch_leases.py"]
"""Files that keep entries in the bus's key-value store, which is no news to anybody."""
WIDER_EDGE = ["gateway"]
"""Services in which more files read messages; test_service_boundaries.py holds that none keeps any."""
EDGE = ["servicer.py", "translation.py", "subscriber.py", "publisher.py", "app.py"]
"""Files that may know generated messages, in any folder of a service."""
STREAMS = ["scheduler/gateway_session.py"]
"""Files that hold one end of a stream, and so read and write its messages."""


def side_doors(services: Path, service: str) -> list[str]:
    """Lists files of a service that import the bus though they are no door to it."""
    found = [
        path.relative_to(services).as_posix()
        for path in sorted((services / service).rglob("*.py"))
        if any(name.split(".")[:2] == ["headrace", "bus"] for name in imports_of(path))
    ]
    doors = {*(f"{service}/{door}" for door in DOORS), *STORES}
    return [path for path in found if path not in doors]


def message_readers(services: Path, service: str) -> list[str]:
    """Lists files of a service that know generated messages though they are not at its edge."""
    found = [
        path.relative_to(services).as_posix()
        for path in sorted((services / service).rglob("*.py"))
        if any(name.startswith(("headrace.v1", "google.")) for name in imports_of(path))
    ]
    return [path for path in found if path not in {*STORES, *STREAMS} and path.rpartition("/")[2] not in EDGE]


@pytest.mark.parametrize("service", SERVICES)
def test_first_four_files(root: Path, service: str) -> None:
    folder = root / "services" / "headrace" / service
    servicer = "routes.py" if service == "gateway" else "servicer.py"
    for name in ("__main__.py", "config.py", "app.py", servicer):
        assert (folder / name).is_file(), f"{service} has no {name}"


def test_the_main_files_differ_in_names_only(root: Path) -> None:
    texts = set()
    for service in SERVICES:
        text = (root / "services" / "headrace" / service / "__main__.py").read_text()
        lines = text.replace(service, "X").replace(service.capitalize(), "X").splitlines()
        texts.add(tuple(sorted(lines)))
    assert len(texts) == 1


@pytest.mark.parametrize("service", SERVICES)
def test_app_is_wiring_without_branches(root: Path, service: str) -> None:
    lines = (root / "services" / "headrace" / service / "app.py").read_text().splitlines()
    assert [line for line in lines if line.strip().startswith("if ")] == []


@pytest.mark.parametrize("service", SERVICES)
def test_the_environment_is_read_in_one_place(root: Path, service: str) -> None:
    for path in (root / "services" / "headrace" / service).rglob("*.py"):
        assert "os.environ" not in path.read_text(), path


@pytest.mark.parametrize("service", SERVICES)
def test_news_come_and_go_through_two_files(root: Path, service: str) -> None:
    assert side_doors(root / "services" / "headrace", service) == []


def test_a_side_door_is_found(tmp_path: Path) -> None:
    (tmp_path / "cache" / "deep").mkdir(parents=True)
    (tmp_path / "cache" / "subscriber.py").write_text("from headrace.bus import subjects\n")
    (tmp_path / "cache" / "deep" / "index.py").write_text("from headrace.bus.bus import Bus\n")
    assert side_doors(tmp_path, "cache") == ["cache/deep/index.py"]


@pytest.mark.parametrize("service", SERVICES)
def test_every_door_is_used(root: Path, service: str) -> None:
    for door in ("subscriber.py", "publisher.py"):
        path = root / "services" / "headrace" / service / door
        assert not path.exists() or any(name.startswith("headrace.bus") for name in imports_of(path)), path


@pytest.mark.parametrize("service", [service for service in SERVICES if service not in WIDER_EDGE])
def test_messages_stay_at_the_edge(root: Path, service: str) -> None:
    assert message_readers(root / "services" / "headrace", service) == []


def test_a_message_that_went_further_is_found(tmp_path: Path) -> None:
    (tmp_path / "worker" / "requests").mkdir(parents=True)
    (tmp_path / "worker" / "requests" / "translation.py").write_text("from headrace.v1 import worker_pb2\n")
    (tmp_path / "worker" / "requests" / "outbox.py").write_text("from headrace.v1.worker_pb2 import Frame\n")
    assert message_readers(tmp_path, "worker") == ["worker/requests/outbox.py"]
