"""The platform that a command talks to."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx2
from cyclopts import Parameter

from headrace.cli.reach.platform_http import get
from headrace.errors import ConfigError, Forbidden, ModelNotFound, Unauthenticated, Unavailable
from headrace.settings.web.connection_options import AUTHORITY_VARIABLE
from headrace.supervisor.state import read_platform

KEY_VARIABLE = "HEADRACE_API_KEY"
KeyFlag = Annotated[str, Parameter(env_var=KEY_VARIABLE)]
"""API key of a command's caller. Belongs into the environment: command lines can be read by others."""

AuthorityFlag = Annotated[
    Path | None,
    Parameter(
        name="--ca",
        help="PEM file of the authority that signed the platform's certificate; HEADRACE_CA names it too. Not needed "
        "for a platform that runs on the state folder: its settings name the certificate.",
    ),
]
"""Authority whose certificates a command trusts."""


def key_headers(key: str) -> dict[str, str]:
    """Returns the headers that carry a key; none without one."""
    return {"authorization": f"Bearer {key}"} if key else {}


def platform_url(url: str, state_dir: Path, authority: Path | None = None) -> str:
    """Returns the given address, else that of the platform that runs on the state folder, and trusts its certificate.
    Raises NotFound and ConfigError."""
    described = {} if url else read_platform(state_dir)
    trust(authority, described)
    return url.rstrip("/") or str(described["http"])


def trust(authority: Path | None, described: Mapping[str, Any]) -> None:
    """Has this process trust certificates of an authority: the given one, else that of the environment, else that of
    the description of a platform. Raises ConfigError for a file that is missing."""
    if authority is not None:
        if not authority.expanduser().is_file():
            raise ConfigError(f"there is no file {authority} with the certificates of an authority", param="ca")
        os.environ[AUTHORITY_VARIABLE] = str(authority.expanduser())
    elif "authority" in described and not os.environ.get(AUTHORITY_VARIABLE):
        os.environ[AUTHORITY_VARIABLE] = str(described["authority"])


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
