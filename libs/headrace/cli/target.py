"""The platform that a command talks to."""

from pathlib import Path

import httpx2

from headrace.errors import ModelNotFound, Unavailable
from headrace.supervisor.state import read_platform


def platform_url(url: str, state_dir: Path) -> str:
    """Returns the given address, else that of the platform that runs on the state folder."""
    return url.rstrip("/") if url else str(read_platform(state_dir)["http"])


def choose_model(url: str, model: str | None) -> str:
    """Returns the given model, or the first that the platform serves. Raises ModelNotFound, or Unavailable."""
    try:
        listed = httpx2.get(f"{url}/v1/models", timeout=10).json()["data"]
    except (httpx2.HTTPError, ValueError, KeyError):
        raise Unavailable(f"no platform answers at {url}. Start one with: headrace up") from None
    names = [entry["id"] for entry in listed]
    if not names:
        raise Unavailable(f"the platform at {url} serves no model yet")
    if model is not None and model not in names:
        raise ModelNotFound(f"{url} does not serve {model!r}; it serves: {', '.join(names)}")
    return model or str(names[0])
