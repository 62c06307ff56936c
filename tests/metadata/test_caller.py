"""Who is asking: the address decides, in whatever spelling the kernel gives it."""

import logging

import pytest

from forewarn.core.facts import FleetChanged
from forewarn.core.model import GroupKind, GroupTerms, Vm
from forewarn.metadata import caller
from forewarn.metadata.caller import Callers, is_loopback, plain_address
from tests.metadata.site import WEB, get, on_both_loops, site

LONE = FleetChanged(groups=(GroupTerms("dev", GroupKind.STANDALONE),), vms=(Vm("dev", "dev"),))


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_an_address_has_one_spelling(address: str, plain: str) -> None:
    """IPv4 inside IPv6 is IPv4, and the zone of a link-local address is left out."""
    assert plain_address(address) == plain


def test_loopback_is_more_than_one_address() -> None:
    """All of 127.0.0.0/8 and ::1 are this machine."""
    assert [is_loopback(address) for address in ("127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "12.7.0.1")] == [
        *(True, True, True),
        *(False, False),
    ]


@on_both_loops
async def test_the_address_decides() -> None:
    """Each VM is itself, by its own address, and a stranger is nobody."""
    async with site() as service:
        for source, name in (("127.0.0.1", b"web-0"), ("127.0.0.2", b"web-1")):
            target = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
            assert (await service.ask(get(target), source)).body == name
        assert (await service.ask(get(), "127.0.0.3")).status == 403


@on_both_loops
async def test_the_default_vm_speaks_for_loopback() -> None:
    """Loopback callers whom no VM claims are the default VM; those whom one claims are that one."""
    async with site(facts=(WEB, LONE), default_vm="dev") as service:
        target = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
        assert (await service.ask(get(target), "127.0.0.7")).body == b"dev"
        assert (await service.ask(get(target), "127.0.0.1")).body == b"web-0"


@on_both_loops
async def test_the_default_vm_speaks_for_nobody_else() -> None:
    """A caller from elsewhere stays a stranger, and so do all when the default VM is not there."""
    async with site(facts=(WEB, LONE)) as service:
        assert Callers(service.desk, "dev").seat_of("10.0.0.1") is None
        assert Callers(service.desk, "gone").seat_of("127.0.0.9") is None


@on_both_loops
async def test_a_stranger_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each unknown address makes one line in the log, which names the remedy."""
    async with site() as service:
        with caplog.at_level(logging.WARNING):
            for source in ("127.0.0.8", "127.0.0.8", "127.0.0.9"):
                await service.ask(get(), source)
        assert [record.args[0] for record in caplog.records if record.args] == ["127.0.0.8", "127.0.0.9"]  # type: ignore[index]
        assert "--default-vm" in caplog.text


@on_both_loops
async def test_strangers_fill_neither_log_nor_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many unknown addresses no more are logged or remembered."""
    monkeypatch.setattr(caller, "_REMEMBERED", 3)
    async with site() as service:
        callers = Callers(service.desk)
        with caplog.at_level(logging.WARNING):
            for number in range(100):
                callers.seat_of(f"10.0.0.{number}")
        assert len(caplog.records) == 4
        assert "not logged" in caplog.records[-1].message
