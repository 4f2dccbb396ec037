"""Invalid ports are reported clearly."""

import pytest

from headrace.errors import AddressInUse, ConfigError
from headrace.supervisor.ports import PortReservation


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_number_that_is_no_port_is_told(port: int) -> None:
    with pytest.raises(ConfigError, match=f"{port} is no port: a port is a number from 0 to 65535") as raised:
        PortReservation(port, "http")
    assert not isinstance(raised.value, AddressInUse)


def test_a_port_in_use_is_told() -> None:
    taken = PortReservation(0, "http", listens=True)
    try:
        with pytest.raises(AddressInUse, match="in use by another program"):
            PortReservation(taken.port, "http")
    finally:
        taken.close()
