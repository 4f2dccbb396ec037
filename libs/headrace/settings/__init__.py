"""Settings: one frozen class per service, read once from flags, environment and file."""

from headrace.settings.settings import Settings, load

__all__ = ["Settings", "load"]
