"""Budgets as messages in the bucket of limits, and back."""

from headrace.gateway.access.limits.key_budget import KeyBudget, Level, PlacesOfKey
from headrace.v1.events_pb2 import BudgetChanged, BudgetLevel, BudgetPlaces


def to_message(budget: KeyBudget) -> BudgetChanged:
    """Converts a budget to the stored message."""
    return BudgetChanged(
        levels=[BudgetLevel(limit=name, value=one.value, unix_seconds=one.time) for name, one in budget.levels.items()],
        places=[
            BudgetPlaces(gateway=name, place_count=one.count, expiry_unix_seconds=one.expires)
            for name, one in budget.places.items()
        ],
    )


def to_budget(message: BudgetChanged) -> KeyBudget:
    """Converts what was read to a budget."""
    return KeyBudget(
        {level.limit: Level(level.value, level.unix_seconds) for level in message.levels},
        {place.gateway: PlacesOfKey(place.place_count, place.expiry_unix_seconds) for place in message.places},
    )
