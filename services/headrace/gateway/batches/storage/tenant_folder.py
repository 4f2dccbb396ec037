"""Folder of one tenant: files in one room of it, batches in the other."""

import hashlib
from pathlib import Path


def tenant_folder(root: Path, tenant: str) -> Path:
    """Returns the folder of a tenant."""
    return root / "tenants" / digest_of(tenant)


def digest_of(tenant: str) -> str:
    """Returns what stands for a tenant in names of files, because a tenant may be called anything."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:32]
