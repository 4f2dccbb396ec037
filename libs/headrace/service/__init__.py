"""Life of every service, written once: it starts, gets ready, serves, drains and stops."""

from headrace.service.address_book import AddressBook
from headrace.service.background import Background
from headrace.service.run import run
from headrace.service.service import Service
from headrace.service.settings import ServiceSettings

__all__ = ["AddressBook", "Background", "Service", "ServiceSettings", "run"]
