"""Filters of all tenants, from a file."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.errors import ConfigError
from headrace.gateway.filter.detectors.bounded_detector import BoundedDetector
from headrace.gateway.filter.detectors.detector import Detector
from headrace.gateway.filter.detectors.pattern_set import PatternSet
from headrace.gateway.filter.detectors.personal_data import PERSONAL_DATA
from headrace.gateway.filter.detectors.word_detector import WordDetector
from headrace.gateway.filter.filter_rules import FilterRules
from headrace.gateway.filter.guard_rule import LLAMA_GUARD_UNSAFE, GuardRule, unsafe_verdicts
from headrace.gateway.filter.search_thread import SearchThread

NOTHING = FilterRules(on_input=False, on_output=False)
DEFAULT = "default"
MAX_MATCH = 1024
_FORBIDDEN = ConfigDict(extra="forbid")


class _Pattern(BaseModel):
    model_config = _FORBIDDEN
    name: str = Field(pattern="^[a-z][a-z0-9_-]{0,31}$")
    regex: str
    longest: int = Field(default=64, ge=1, le=MAX_MATCH)
    """Maximum length of a match, and the number of characters that a stream is held back by."""


class _Guard(BaseModel):
    model_config = _FORBIDDEN
    model: str = Field(min_length=1)
    unsafe: str = LLAMA_GUARD_UNSAFE
    input: bool = True
    output: bool = True

    def rule(self) -> GuardRule:
        return GuardRule(self.model, self.input, self.output, unsafe_verdicts(self.unsafe))


class _Table(BaseModel):
    """Table of one tenant."""

    model_config = _FORBIDDEN
    words: list[Annotated[str, Field(min_length=1, max_length=MAX_MATCH)]] = Field(default_factory=list)
    patterns: list[_Pattern] = Field(default_factory=list)
    personal: list[Literal["card", "iban", "email", "phone", "secret"]] = Field(default_factory=list)
    action: Literal["mask", "block"] = "mask"
    input: bool = True
    output: bool = True
    guard: _Guard | None = None

    def rules(self) -> FilterRules:
        detectors: list[Detector] = []
        detectors += [PatternSet([PERSONAL_DATA[name] for name in self.personal])] if self.personal else []
        detectors += [WordDetector("word", self.words)] if self.words else []
        detectors += [BoundedDetector(each.name, each.regex, each.longest) for each in self.patterns]
        guard = None if self.guard is None else self.guard.rule()
        return FilterRules(detectors, self.action, self.input, self.output, guard)


class Filters:
    """Finds the rules of a tenant."""

    def __init__(self, by_tenant: Mapping[str, FilterRules] | None = None) -> None:
        """`by_tenant`: rules by name, those of all others as `default`."""
        self._by_tenant = dict(by_tenant or {})
        self.thread = SearchThread()
        """Thread for long texts of all tenants."""

    def of(self, tenant: str) -> FilterRules:
        return self._by_tenant.get(tenant) or self._by_tenant.get(DEFAULT, NOTHING)


def read_filters(path: Path | None) -> Filters:
    """Reads a TOML file with a table per tenant, and `default` for tenants that have none. Raises ConfigError."""
    if path is None:
        return Filters()
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the file of filters {path}: {error}", param="filters_file") from None
    return Filters({name: _checked(path, name, table) for name, table in tables.items()})


def _checked(path: Path, name: str, table: object) -> FilterRules:
    try:
        return _Table.model_validate(table).rules()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(str(part) for part in (name, *first["loc"]))
        raise ConfigError(f"{path}: {place}: {first['msg']}", param="filters_file") from None
