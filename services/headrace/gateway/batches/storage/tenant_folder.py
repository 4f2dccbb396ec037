"""Folder of one tenant: files in one room of it, batches in the other."""

import hashlib
from pathlib import Path


def tenant_folder(root: Path, tenant: str) -> Path:
    """Returns the folder of a tenant. It is named by a digest, because a tenant may be called anything."""
    return root / "tenants" / hashlib.sha256(tenant.encode()).hexdigest()[:32]
