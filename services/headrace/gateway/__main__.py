"""Runs the gateway: `python -m headrace.gateway --help` lists its settings."""

import gc

if __name__ == "__main__":
    # Imports leave hardly any garbage, and looking for it takes a tenth of their time. `run` looks again.
    gc.disable()

    from headrace.gateway.app import open_app
    from headrace.gateway.config import GatewaySettings
    from headrace.lifecycle import run

    run("gateway", GatewaySettings, open_app)
