"""Workers are drained by whoever may, and by no one else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headrace.access.key_file import KeyFile
from headrace.gateway.access.gate import Gate
from headrace.gateway.access.key_ring import KeyRing
from headrace.gateway.api.operation.workers import WorkerRoutes
from headrace.gateway.config import GatewaySettings
from headrace.gateway.routes import Routes

pytestmark = pytest.mark.anyio
PATH = "/headrace/workers/worker%200/drain"


class NotingFleet:
    """Notes which worker is to end, and on which terms."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float, bool]] = []

    async def drain(self, worker_id: str, patience: float, *, force: bool) -> int:
        self.asked.append((worker_id, patience, force))
        return 7


@pytest.fixture
def fleet() -> NotingFleet:
    return NotingFleet()


async def send(fleet: Any, gate: Gate, body: bytes = b"", key: str = "", **settings: Any) -> httpx2.Response:
    made = GatewaySettings(**settings)
    app = httpx2.ASGITransport(app=Routes(made, [WorkerRoutes(made, fleet)], gate))
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(transport=app, base_url="http://localhost") as client:
        return await client.post(PATH, content=body, headers=headers)


@pytest.mark.parametrize(
    ("body", "terms"),
    [
        (b"", (0.0, False)),
        (b"{}", (0.0, False)),
        (b'{"patience_seconds": 2.5, "force": true}', (2.5, True)),
    ],
)
async def test_a_worker_is_drained_on_the_terms_of_the_body(
    fleet: NotingFleet, body: bytes, terms: tuple[float, bool]
) -> None:
    answer = await send(fleet, Gate(), body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"id": "worker 0", "state": "draining", "sessions": 7}
    assert fleet.asked == [("worker 0", *terms)]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"patience": 1}', "patience"),
        (b'{"patience_seconds": -1}', "patience_seconds"),
        (b'{"patience_seconds": 1e9}', "patience_seconds"),
        (b'{"patience_seconds": NaN}', "patience_seconds"),
        (b'{"force": 1}', "force"),
        (b"[]", None),
        (b"{", None),
    ],
)
async def test_a_bad_body_drains_none(fleet: NotingFleet, body: bytes, param: str | None) -> None:
    answer = await send(fleet, Gate(), body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert fleet.asked == []


async def test_a_key_needs_the_scope_admin(fleet: NotingFleet, tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    usual, admin = file.create("alice")[0].text, file.create("boss", scopes=("admin",))[0].text
    gate = Gate(KeyRing(file.path))
    found: Mapping[str, int] = {
        key: (await send(fleet, gate, key=key, http_address="0.0.0.0:80")).status_code for key in ("", usual, admin)
    }
    assert found == {"": 401, usual: 403, admin: 200}
    assert len(fleet.asked) == 1


@pytest.mark.parametrize(
    ("address", "status"), [("127.0.0.1:80", 200), ("[::1]:80", 200), ("0.0.0.0:80", 403), ("10.0.0.1:80", 403)]
)
async def test_without_keys_only_the_machine_itself_may(fleet: NotingFleet, address: str, status: int) -> None:
    answer = await send(fleet, Gate(), http_address=address)
    assert answer.status_code == status
    assert len(fleet.asked) == (status == 200)
