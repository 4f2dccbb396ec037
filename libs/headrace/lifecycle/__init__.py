"""Life of every service, written once: it starts, gets ready, serves, drains and stops."""

from headrace.lifecycle.address_book import AddressBook
from headrace.lifecycle.background import Background
from headrace.lifecycle.cancel_and_wait import cancel_and_wait
from headrace.lifecycle.open_bus import OpenBus, open_nats
from headrace.lifecycle.run import run
from headrace.lifecycle.security import channels_to
from headrace.lifecycle.service import Service
from headrace.lifecycle.settings import ServiceSettings
from headrace.lifecycle.wait_at_most import wait_at_most

__all__ = [
    "AddressBook",
    "Background",
    "OpenBus",
    "Service",
    "ServiceSettings",
    "cancel_and_wait",
    "channels_to",
    "open_nats",
    "run",
    "wait_at_most",
]
