"""Policies as a command line names them: `default`, or settings of the scheduler such as `max_window_seconds=0`."""

from dataclasses import fields

from headrace.errors import InvalidRequest
from headrace.scheduler.core.demand.scaling_terms import ScalingTerms
from headrace.scheduler.core.foresight.refusal_terms import RefusalTerms
from headrace.scheduler.core.policy import Policy

DEFAULT = "default"
SETTINGS = (
    *(field.name for field in fields(Policy) if field.name not in ("transfer", "refusal", "scaling")),
    *(f"refused_{field.name}_classes" for field in fields(RefusalTerms)),
    *(f"scaling_{field.name}" for field in fields(ScalingTerms)),
)
"""Settings that may differ. Those of transfers do nothing here: no simulated worker computes prompts for others."""


def policy_of(text: str) -> Policy:
    """Returns the policy of a text: `default`, or settings as NAME=VALUE, separated by commas. Raises InvalidRequest
    for an unknown setting, and ConfigError for a value with which no scheduler would start."""
    values: dict[str, str] = {}
    for setting in text.split(","):
        name, is_set, value = (part.strip() for part in setting.partition("="))
        if name == DEFAULT and not is_set:
            continue
        if name not in SETTINGS or not is_set:
            known = ", ".join(SETTINGS)
            raise InvalidRequest(
                f"a policy cannot be {setting.strip()[:60]!r}; write {DEFAULT}, or NAME=VALUE of: {known}",
                param="policy",
            )
        values[name] = value
    if not values:
        return Policy()
    # Takes half a second to import, and only the service's own settings know what it would start with.
    from headrace.scheduler.config import SchedulerSettings

    return SchedulerSettings.of(**values).policy()
