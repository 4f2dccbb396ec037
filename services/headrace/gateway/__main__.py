"""Runs the gateway: `python -m headrace.gateway --help` lists its settings."""

from headrace.gateway.app import open_app
from headrace.gateway.config import GatewaySettings
from headrace.lifecycle import run

if __name__ == "__main__":
    run("gateway", GatewaySettings, open_app)
