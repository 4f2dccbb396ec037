"""The cache's settings."""

from pathlib import Path

from pydantic import Field

from headrace.lifecycle import ServiceSettings
from headrace.settings.secret import Secret


class CacheSettings(ServiceSettings):
    """Settings of the cache service."""

    service_id: str = "cache"
    """Unique name of this process."""
    folder: Path
    """Folder in which responses are kept (an LMDB environment)."""
    max_bytes: int = Field(default=256 * 1024 * 1024, ge=1024 * 1024)
    """Maximum bytes of responses kept. The oldest go first."""
    lifetime_seconds: float = Field(default=3600.0, gt=0)
    """Time for which a response is kept when the writer does not say."""
    stream_bytes: int = Field(default=64 * 1024 * 1024, ge=64 * 1024)
    """Maximum bytes of the journals of streams, in memory. The oldest go first; no journal may take more than a
    sixteenth."""
    kv_store_bytes: int = Field(default=0, ge=0)
    """Maximum bytes of KV blocks that workers share through this cache, in its folder. The ones that save the
    least time for their bytes go first. They are as secret as the prompts that they were made of. 0: none are kept."""
    kv_store_url: Secret = ""
    """Address of a Valkey or Redis server that keeps these blocks instead, for all caches: valkey://HOST:PORT, or
    valkeys:// with TLS. It bounds its own memory. With a password, it belongs into the environment."""
    max_prefix_blocks: int = Field(default=2_000_000, ge=1)
    """Maximum number of KV blocks that the prefix index remembers."""
