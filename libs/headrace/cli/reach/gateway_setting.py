"""Settings of the gateways that `headrace up` has to know before they run."""

import os
import tomllib
from pathlib import Path

from headrace.errors import ConfigError


def gateway_path(name: str, config: Path | None) -> Path | None:
    """Returns the file that a setting of the gateway names. Raises ConfigError."""
    named = gateway_setting(name, config)
    return Path(named).expanduser().absolute() if named else None


def gateway_setting(name: str, config: Path | None) -> str:
    """Returns a setting of the gateway, from the environment or else from the configuration file; empty if neither has
    it. Raises ConfigError for a file that cannot be read."""
    named = os.environ.get(f"HEADRACE_GATEWAY_{name.upper()}")
    if not named and config is not None:
        try:
            named = tomllib.loads(config.read_text()).get("gateway", {}).get(name)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read {config}: {error}", param="config") from None
    return str(named) if named else ""
