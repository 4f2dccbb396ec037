"""The folder that all gateways share, with files and batches."""

from dataclasses import dataclass

from headrace.errors import ConfigError, NotEnabled
from headrace.gateway.batches.storage.batch_store import BatchStore
from headrace.gateway.batches.storage.file_store import FileStore
from headrace.gateway.batches.storage.free_space import FreeSpace
from headrace.gateway.config import GatewaySettings
from headrace.storage.private_files import close_to_others


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """Files and batches of all tenants."""

    files: FileStore
    batches: BatchStore
    space: FreeSpace


def open_folder(settings: GatewaySettings) -> SharedFolder | None:
    """Opens the folder of the settings, or returns None if they name none. Raises ConfigError if it cannot be made."""
    root = settings.files_folder
    if root is None:
        return None
    root = root.expanduser().absolute()
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        close_to_others(root)
    except OSError as error:
        raise ConfigError(f"cannot keep files in {root}: {error.strerror}", param="files_folder") from None
    return SharedFolder(
        FileStore(root, settings.tenant_file_bytes, settings.file_seconds), BatchStore(root), FreeSpace(root)
    )


def needed(folder: SharedFolder | None) -> SharedFolder:
    """Returns a folder that is there. Raises NotEnabled."""
    if folder is None:
        raise NotEnabled(
            "this gateway keeps no files: set gateway.files_folder to a folder that all gateways share, and start it "
            "again"
        )
    return folder
