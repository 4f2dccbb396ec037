"""The platform that a command talks to."""

import os
from pathlib import Path
from typing import Annotated

import httpx2
from cyclopts import Parameter

from headrace.cli.reach.platform_http import get
from headrace.errors import Forbidden, ModelNotFound, Unauthenticated, Unavailable
from headrace.settings.web.connection_options import AUTHORITY_VARIABLE
from headrace.supervisor.state import read_platform

KEY_VARIABLE = "HEADRACE_API_KEY"
KeyFlag = Annotated[str, Parameter(env_var=KEY_VARIABLE)]
"""API key of a command's caller. Belongs into the environment: command lines can be read by others."""


def key_headers(key: str) -> dict[str, str]:
    """Returns the headers that carry a key; none without one."""
    return {"authorization": f"Bearer {key}"} if key else {}


def platform_url(url: str, state_dir: Path) -> str:
    """Returns the given address, else that of the platform that runs on the state folder. This process trusts its
    certificate from then on, unless the environment names an authority."""
    if url:
        return url.rstrip("/")
    described = read_platform(state_dir)
    if "authority" in described:
        os.environ.setdefault(AUTHORITY_VARIABLE, str(described["authority"]))
    return str(described["http"])


def choose_model(url: str, model: str | None, key: str = "") -> str:
    """Returns the given model, or the first of the platform's that can chat, or any. Raises ModelNotFound, Unavailable,
    or the refusal of the key."""
    names = served_models(url, key)
    if not names:
        raise Unavailable(f"the platform at {url} serves no model yet")
    if model is not None and model not in names:
        raise ModelNotFound(f"{url} does not serve {model!r}; it serves: {', '.join(names)}")
    return model or next((name for name, can_chat in names.items() if can_chat), next(iter(names)))


def served_models(url: str, key: str = "") -> dict[str, bool]:
    """Returns whether each model of a platform can chat. Raises Unavailable, or the refusal of the key."""
    response = get(f"{url}/v1/models", key_headers(key), timeout=10)
    _check_key(response, key)
    try:
        return {str(entry["id"]): bool(entry.get("can_chat")) for entry in response.json()["data"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unavailable(f"what answers at {url} is no platform. Start one with: headrace up") from None


def _check_key(response: httpx2.Response, key: str) -> None:
    """Raises Unauthenticated or Forbidden where the platform asks for another key."""
    if response.status_code not in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
        return
    remedy = "give another with" if key else "give one with"
    kind = Unauthenticated if response.status_code == httpx2.codes.UNAUTHORIZED else Forbidden
    message = str(response.json()["error"]["message"])
    raise kind(f"{message} ({remedy} --key or {KEY_VARIABLE})")
