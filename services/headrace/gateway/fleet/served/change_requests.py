"""ChangeRequests of a gateway to the platform: what is to be served."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from headrace.domain.deadline import Deadline
from headrace.errors import ConfigError, DeadlineExceeded, InvalidRequest, NotEnabled, Unavailable
from headrace.served.served_file import ServedFile
from headrace.served.served_models import ServedModels

LOOK_SECONDS = 0.1


class ChangeRequests:
    """Changes the file of served models, which the supervisor of the platform follows."""

    def __init__(self, path: Path | None) -> None:
        """`path`: the file. None: the models are chosen where the platform is started."""
        self._path = path

    @property
    def _file(self) -> ServedFile:
        if self._path is None:
            raise NotEnabled(
                "models are loaded and unloaded on a platform of headrace up; here they are chosen where the workers "
                "are started"
            )
        return ServedFile(self._path)

    async def read(self) -> ServedModels:
        """Returns what changed so far. Raises NotEnabled and Unavailable."""
        return await _beside(self._file.read)

    async def make(self, name: str, change: Callable[[ServedModels], ServedModels], deadline: Deadline) -> None:
        """Has the platform make a change, and waits until it has. Raises InvalidRequest with the reason where it cannot
        be made, NotEnabled, Unavailable, and DeadlineExceeded: it may be made later."""
        file = self._file
        revision = (await _beside(lambda: file.change(change))).revision
        while (served := await _beside(file.read)).applied < revision:
            if deadline.expired:
                raise DeadlineExceeded(f"{name} is still being loaded or unloaded: GET /headrace/models shows it")
            await asyncio.sleep(LOOK_SECONDS)
        if name in served.refused:
            raise InvalidRequest(served.refused[name])


async def _beside(work: Callable[[], ServedModels]) -> ServedModels:
    """Does what waits for a lock or a disk beside the event loop. Raises Unavailable."""
    try:
        return await asyncio.to_thread(work)
    except ConfigError as error:
        raise Unavailable(error.message) from None
