"""One PEP 420 namespace over two source roots, and every package typed."""

from pathlib import Path


def test_the_namespace_has_no_init(root: Path) -> None:
    assert not (root / "libs" / "headrace" / "__init__.py").exists()
    assert not (root / "services" / "headrace" / "__init__.py").exists()


def test_both_halves_can_be_imported() -> None:
    import headrace.errors
    import headrace.gateway

    assert "libs" in (headrace.errors.__file__ or "")
    assert "services" in (headrace.gateway.__file__ or "")


def test_every_package_is_marked_as_typed(root: Path) -> None:
    packages = [*(root / "libs" / "headrace").iterdir(), *(root / "services" / "headrace").iterdir()]
    packages = [path for path in packages if (path / "__init__.py").exists() and path.name != "v1"]
    assert len(packages) > 10
    assert [path.name for path in packages if not (path / "py.typed").exists()] == []
