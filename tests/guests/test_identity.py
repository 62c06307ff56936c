"""Who a real guest is, whatever address it gives itself."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from demo.guest import Guest
from demo.service import Service
from demo.site import BRIDGE, METADATA
from tests.guests.conftest import GuestHarness

pytestmark = pytest.mark.end_to_end

VM = """
[[vm]]
name = "{name}"
{address}
tap = "tap{number}h1"
mark = {mark}
"""
ASK = (
    "timeout 5 wget -q -O - --header 'Metadata: true' "
    f"'http://{METADATA}/metadata/instance/compute/name?api-version=2021-02-01&format=text'"
)


class GuestNetworkHarness:
    """A service that knows guests by their wires, and the network it set up for them."""

    def __init__(self, guest_harness: GuestHarness, identity: str, addresses: dict[str, str]) -> None:
        self._park = guest_harness
        self._settings = guest_harness.directory / "forewarn.toml"
        fleet = "".join(
            VM.format(
                name=name,
                number=number,
                mark=100 + number,
                address=f'address = "{addresses[name]}"' if addresses[name] else "",
            )
            for number, name in enumerate(addresses)
        )
        self._environment = ("env", f"FOREWARN_FLEET={guest_harness.directory}/fleet.toml")
        self._service = Service(
            guest_harness.site,
            guest_harness.directory,
            fleet,
            data=str(guest_harness.directory / "data"),
            identity=identity,
            metadata=f"{METADATA}:80",
            drivers={"simulated": {}},
        )

    def set_up(self) -> None:
        self._forewarn("network", "setup", "--config", str(self._settings), "--bridge", BRIDGE)

    def begin(self) -> None:
        self._service.begin().close()

    def close(self) -> None:
        self._service.kill()
        self._forewarn("network", "teardown")

    def _forewarn(self, *words: str) -> None:
        self._park.site.run(*self._environment, Path(sys.executable).with_name("forewarn"), *words)


Wire = Callable[[str, dict[str, str]], GuestNetworkHarness]


def become(guest: Guest, address: str) -> None:
    """Have a guest use another address, and no other."""
    route = f"ip route add {METADATA} dev eth0"
    guest.order(f"ip address flush dev eth0; ip address add {address}/24 dev eth0; {route}")


def name_of(guest: Guest) -> str:
    """Return the name that the service knows the guest by; nothing when it is not answered."""
    mark = token_hex(4)
    guest.order(f'say name "{mark} $({ASK})"')
    return next(said for said in guest.said("name") if mark in said).partition(" ")[2]


@pytest.fixture
def wire(guest_harness: GuestHarness) -> Iterator[Wire]:
    """Make the service of a test, and end it and undo what it set up."""
    made: list[GuestNetworkHarness] = []

    def make(identity: str, addresses: dict[str, str]) -> GuestNetworkHarness:
        made.append(GuestNetworkHarness(guest_harness, identity, addresses))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_guest_that_takes_an_address_that_nobody_declared_is_known_by_its_wire(
    guest_harness: GuestHarness, wire: Wire
) -> None:
    """It has the mark of its tap, whatever its address is."""
    service = wire("mark", dict.fromkeys(guest_harness.addresses, ""))
    service.set_up()
    service.begin()
    liar = guest_harness.restored("web-1")
    assert name_of(liar) == "web-1"

    become(liar, guest_harness.addresses["web-0"])
    assert name_of(liar) == "web-1"


@pytest.mark.parametrize("identity", ["address", "mark"])
def test_a_guest_with_the_address_of_another_is_not_heard(
    guest_harness: GuestHarness, wire: Wire, identity: str
) -> None:
    """It would be taken for the other, or cut the other off; so nothing of it gets through."""
    service = wire(identity, guest_harness.addresses)
    service.set_up()
    service.begin()
    liar = guest_harness.restored("web-1")
    assert name_of(liar) == "web-1"

    become(liar, guest_harness.addresses["web-0"])
    assert name_of(liar) == ""
    become(liar, guest_harness.addresses["web-1"])
    assert name_of(liar) == "web-1"


def test_two_tenants_with_one_address_are_two(guest_harness: GuestHarness, wire: Wire) -> None:
    """Each on a wire of its own, with a listener of its own."""
    service = wire("tap", dict.fromkeys(guest_harness.addresses, "10.0.0.99"))
    guests = [guest_harness.restored(name) for name in guest_harness.addresses]
    for number, guest in enumerate(guests):
        guest_harness.site.run("ip", "link", "set", f"tap{number}h1", "nomaster")
        become(guest, "10.0.0.99")
    service.set_up()
    service.begin()

    assert [name_of(guest) for guest in guests] == ["web-0", "web-1"]
