"""Colors of the states of services."""

STATE_STYLES = {"ready": "green", "starting": "yellow", "restarting": "red", "stopping": "yellow", "stopped": "dim"}
