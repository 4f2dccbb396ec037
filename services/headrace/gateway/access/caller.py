"""Callers: a tenant, and the key that says what it may do."""

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from headrace.access.key_record import KeyRecord
from headrace.errors import Forbidden
from headrace.gateway.access.account import Account
from headrace.gateway.access.bookkeeper import Bookkeeper
from headrace.gateway.access.tenant import CLASSES, PUBLIC, Tenant


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant with a key, or anyone where no key is needed."""

    tenant: Tenant = PUBLIC
    key: KeyRecord | None = None
    bookkeeper: Bookkeeper = field(default_factory=Bookkeeper)

    @property
    def sees_all_usage(self) -> bool:
        """Whether the usage of other tenants is shown."""
        return self.key is None or "admin" in self.key.scopes

    def check_scope(self, scopes: Set[str]) -> None:
        """Raises Forbidden unless the key has one of the scopes. No scopes: every key will do."""
        if self.key is not None and scopes and scopes.isdisjoint(self.key.scopes):
            raise Forbidden(
                f"the API key {self.key.id} has the scopes {', '.join(self.key.scopes)}; this needs "
                f"{' or '.join(sorted(scopes))}: use another key"
            )

    def may_end_workers(self, *, is_private: bool) -> bool:
        """Whether the caller may drain workers. `is_private`: only this machine reaches the gateway, so that callers
        without a key are trusted."""
        return is_private if self.key is None else "admin" in self.key.scopes

    def may_choose_templates(self, *, is_private: bool) -> bool:
        """Whether the caller may have code of its own, a chat template, rendered. `is_private`: see
        `may_end_workers`."""
        return self.may_end_workers(is_private=is_private)

    def may_use(self, model: str) -> bool:
        """Whether the key allows a model."""
        return self.key is None or not self.key.models or model in self.key.models

    def check_model(self, model: str) -> None:
        """Raises Forbidden for a model that the key does not allow, whether or not it exists."""
        if self.key is not None and not self.may_use(model):
            raise Forbidden(
                f"the API key {self.key.id} may not use this model; it may use {', '.join(self.key.models)}",
                param="model",
            )

    def allowed_seconds(self, wanted: float) -> float:
        """Returns the seconds wanted for a request, or the maximum that the key allows."""
        longest = self.key.longest_deadline if self.key else None
        return wanted if longest is None else min(wanted, longest)

    def open_account(self, request_id: str, model: str, tell: Callable[[dict[str, str]], None]) -> Account:
        """Opens the account of one request. `tell` takes the headers with the remainder of the key's limits."""
        return self.bookkeeper.open(self.key, self.tenant.name, request_id, model, tell)


def tenant_of(key: KeyRecord) -> Tenant:
    """Returns the tenant of a key, with the weight and the class that the key gives it."""
    return Tenant(key.tenant, key.weight, CLASSES[key.highest_class])


ANYONE = Caller()
