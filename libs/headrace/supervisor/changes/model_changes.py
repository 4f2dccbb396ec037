"""ModelChanges of a running platform, as its file of served models has them."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from headrace.errors import ConfigError, HeadraceError
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.roster import Roster
from headrace.served.served_file import ServedFile
from headrace.served.served_models import ServedModels
from headrace.supervisor.changes.served_sources import ServedSources

WATCH_SECONDS = 0.25

_log = logging.getLogger(__name__)


class ServingPlatform(Protocol):
    """Platform whose models can change."""

    @property
    def spec(self) -> PlatformSpec:
        """Models that it serves now, and its processes."""

    async def serve(self, models: Sequence[ModelSource]) -> None:
        """Serves other models from now on. Raises HeadraceError, and serves what it did before then."""

    async def pin(self, model: str, *, is_pinned: bool) -> None:
        """Has a model's workers keep it awake, or let it take turns. Raises HeadraceError, and changes nothing then."""


class ModelChanges:
    """Follows the file, and has the platform make one change after the other."""

    def __init__(self, platform: ServingPlatform, sources: ServedSources, file: ServedFile) -> None:
        self._platform = platform
        self._sources = sources
        self._file = file
        self._used = 0
        """Numbers of workers below this were given to models already."""

    async def watch(self) -> None:
        """Makes changes until cancelled."""
        stamp = None
        while True:
            if self._file.stamp != stamp:
                stamp = self._file.stamp
                await self._follow()
            await asyncio.sleep(WATCH_SECONDS)

    async def _follow(self) -> None:
        try:
            served = self._file.read()
            if served.applied < served.revision:
                await self.apply(served)
                self._file.change(lambda latest: latest.applying(served.revision))
        except ConfigError as error:
            _log.error("what is served stays as it was", extra={"error": error.message})

    async def apply(self, served: ServedModels) -> None:
        """Serves what the file says. What cannot be loaded, unloaded or pinned is noted there, with the reason."""
        for name, is_pinned in served.pins.items():
            if is_pinned != (name in self._platform.spec.pinned):
                await self._pin(name, is_pinned=is_pinned)
        names = self._sources.names(served)
        changed = [name for name in names if self._is_changed(name, served)]
        gone = [model.name for model in self._platform.spec.models if model.name not in names]
        if refusal := self._refusal(names) if changed or gone or served.leaving else "":
            for name in {*changed, *gone, *served.leaving}:
                self._refuse(name, refusal)
            return
        if served.leaving:
            self._file.change(lambda latest: latest.parted())
        if gone:
            await self._make(gone[0], [model for model in self._numbered() if model.name in names])
        for name in changed:
            await self._load(name, served)

    def _refusal(self, names: Sequence[str]) -> str:
        """Says why what is served cannot become these models; empty: it can."""
        spec = self._platform.spec
        if spec.shared_worker or spec.prefill_workers:
            return "models of a shared worker, and those with prefill workers, are chosen at the start: use headrace up"
        return "" if names else "it is the only model served: load another one first"

    def _is_changed(self, name: str, served: ServedModels) -> bool:
        """Whether a model is not served as it should be."""
        known = {model.name: model for model in self._platform.spec.models}.get(name)
        try:
            source = self._sources.find(name, served)
        except ConfigError:
            return True
        return known is None or source != replace(known, worker_numbers=source.worker_numbers)

    async def _load(self, name: str, served: ServedModels) -> None:
        known = {model.name: model for model in self._numbered()}
        try:
            source = replace(self._sources.find(name, served), worker_numbers=self._next_numbers())
        except ConfigError as error:
            self._refuse(error.param if error.param and error.param in served.adapters else name, error.message)
            return
        await self._make(_changed_name(known.get(name), source), [*(known | {name: source}).values()])

    async def _make(self, name: str, models: Sequence[ModelSource]) -> None:
        """Has the platform serve models. `name`: the one to refuse where it cannot."""
        try:
            await self._platform.serve(models)
        except HeadraceError as error:
            _log.warning("a change of what is served failed", extra={"model": name, "error": error.message})
            self._refuse(name, error.message)

    async def _pin(self, name: str, *, is_pinned: bool) -> None:
        try:
            await self._platform.pin(name, is_pinned=is_pinned)
        except HeadraceError as error:
            reason = error.message
            _log.warning("a model could not be pinned", extra={"model": name, "error": reason})
            self._file.change(lambda latest: latest.refusing_pin(name, reason))

    def _refuse(self, name: str, reason: str) -> None:
        self._file.change(lambda latest: latest.refusing(name, reason))

    def _numbered(self) -> list[ModelSource]:
        """Returns the models with the numbers of their workers, which stay when others come and go."""
        spec = self._platform.spec
        numbers = Roster.of(spec).numbers
        self._used = max([self._used, *(1 + number for found in numbers.values() for number in found)])
        return [replace(model, worker_numbers=numbers.get(model.name, ())) for model in spec.models]

    def _next_numbers(self) -> tuple[int, ...]:
        first, self._used = self._used, self._used + self._platform.spec.replicas
        return tuple(range(first, self._used))


def _changed_name(known: ModelSource | None, source: ModelSource) -> str:
    """Returns the name of what is new: a model, or else the adapter that it has got."""
    if known is None or known.folder != source.folder:
        return source.name
    return next((name for name in source.adapters if name not in known.adapters), source.name)
