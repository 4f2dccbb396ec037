"""All five services start with the same four files."""

from pathlib import Path

import pytest

SERVICES = ["gateway", "tokenizer", "scheduler", "cache", "worker"]


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
