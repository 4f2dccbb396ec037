"""Values of typical platforms, as docs/guide/kubernetes.md and deploy/helm/values have them."""

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[3] / "deploy/helm/values"


def fleets() -> dict[str, dict[str, Any]]:
    """Values by the name of their file."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}
