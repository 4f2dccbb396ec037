"""Tenants: the owners of keys."""

from dataclasses import dataclass

from headrace.access.key_record import CLASS_NAMES
from headrace.v1.generation_pb2 import PriorityClass

CLASSES: dict[str, "PriorityClass.ValueType"] = {
    "realtime": PriorityClass.PRIORITY_CLASS_REALTIME,
    "interactive": PriorityClass.PRIORITY_CLASS_INTERACTIVE,
    "default": PriorityClass.PRIORITY_CLASS_UNSPECIFIED,
    "batch": PriorityClass.PRIORITY_CLASS_BATCH,
}
_RANKS = {CLASSES[name]: rank for rank, name in enumerate(CLASS_NAMES)}


@dataclass(frozen=True, slots=True)
class Tenant:
    """Owner of keys whose requests are kept apart from others', in fairness and in caches."""

    name: str
    weight: float = 1.0
    """Share of the tenant relative to others."""
    highest_class: "PriorityClass.ValueType" = PriorityClass.PRIORITY_CLASS_REALTIME

    def allowed(self, wanted: "PriorityClass.ValueType") -> "PriorityClass.ValueType":
        """Returns the class wanted, or the most urgent one that the tenant may have."""
        return min(wanted, self.highest_class, key=lambda given: _RANKS.get(given, _RANKS[CLASSES["default"]]))


PUBLIC = Tenant("public")
"""Tenant of all requests where there are no keys."""
