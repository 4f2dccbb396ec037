"""Secret that stands in a file."""

from pathlib import Path

from headrace.errors import ConfigError


def read_secret(path: Path, setting: str) -> str:
    """Returns the secret, without white space around it. Raises ConfigError, which names the setting, for a file that
    holds none."""
    try:
        secret = path.read_text().strip()
    except UnicodeDecodeError:
        secret = ""
    except OSError as error:
        raise ConfigError(f"setting {setting}: cannot read {path}: {error.strerror}", param=setting) from None
    # Calls carry it in a header, which holds no other characters.
    if not secret.isascii() or not secret.isprintable() or len(secret.split()) != 1:
        raise ConfigError(
            f"setting {setting}: {path} should hold one long random string without spaces; "
            "`openssl rand -hex 24` makes one",
            param=setting,
        )
    return secret
