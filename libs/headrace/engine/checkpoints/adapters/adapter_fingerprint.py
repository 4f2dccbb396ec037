"""Tells adapters of the same name apart."""

from hashlib import blake2b
from pathlib import Path

from headrace.engine.checkpoints.adapters.lora_config import CONFIG_FILE, WEIGHTS_FILE


def adapter_fingerprint(folder: Path) -> str:
    """Digest of an adapter's files."""
    digest = blake2b(digest_size=16)
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        content = (folder / name).read_bytes()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
