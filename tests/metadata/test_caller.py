"""Who is asking: the address decides, in whatever spelling the kernel gives it."""

import logging

import pytest

from forewarn.core.facts import AnyFact, Entry, FleetChanged, VmDeallocated, VmStarted
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, GroupKind, GroupTerms, Vm
from forewarn.metadata.caller import CallerResolver, is_loopback, plain_address
from forewarn.metadata.document_cache import DocumentCache
from forewarn.node.feed import Commit
from forewarn.wire import error_responses
from tests.metadata.harness import NOW, WEB, get, harness, on_both_loops

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
    async with harness() as service:
        for source, name in (("127.0.0.1", b"web-0"), ("127.0.0.2", b"web-1")):
            target = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
            assert (await service.ask(get(target), source)).body == name
        assert (await service.ask(get(), "127.0.0.3")).status == 403


@on_both_loops
async def test_the_default_vm_speaks_for_loopback() -> None:
    """Loopback callers whom no VM claims are the default VM; those whom one claims are that one."""
    async with harness(facts=(WEB, LONE), default_vm="dev") as service:
        target = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
        assert (await service.ask(get(target), "127.0.0.7")).body == b"dev"
        assert (await service.ask(get(target), "127.0.0.1")).body == b"web-0"


@on_both_loops
async def test_the_default_vm_speaks_for_nobody_else() -> None:
    """A caller from elsewhere stays a stranger, and so do all when the default VM is not there."""
    async with harness(facts=(WEB, LONE)) as service:
        assert CallerResolver(service.document_cache, "dev").entry_of("10.0.0.1") is None
        assert CallerResolver(service.document_cache, "gone").entry_of("127.0.0.9") is None


@on_both_loops
async def test_a_deallocated_vm_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    """In the answer and in the log, with what brings it back; not where another VM has its address since."""
    async with harness() as service:
        service.commit(VmDeallocated("web-0", "evicted"))
        with caplog.at_level(logging.WARNING):
            answers = [await service.ask(get(), "127.0.0.1"), await service.ask(get(), "127.0.0.1")]
        service.commit(VmStarted("web-0"))
        back = await service.ask(get(), "127.0.0.1")
        service.commit(VmDeallocated("web-0", "evicted"))
        service.commit(FleetChanged(removed_vms=("web-0",)))
        gone = await service.ask(get(), "127.0.0.1")

        assert [(answer.status, answer.body) for answer in answers] == [(403, error_responses.DEALLOCATED.body)] * 2
        assert [line.partition(" remedy=")[0].partition(": ")[2] for line in caplog.text.splitlines()] == [
            'refused a caller address=127.0.0.1 vm=web-0 reason="the VM is deallocated"',
            'refused a caller address=127.0.0.1 reason="no VM of the fleet has this address"',
        ]
        assert "remedy=\"start it with 'forewarn vm start web-0'\"" in caplog.text
        assert (back.status, gone.status, gone.body) == (200, 403, error_responses.FORBIDDEN.body)


@on_both_loops
async def test_a_deallocated_default_vm_is_told_so() -> None:
    """Those for whom it speaks read the same."""
    async with harness(facts=(WEB, LONE, VmDeallocated("dev", "evicted")), default_vm="dev") as service:
        assert (await service.ask(get(), "127.0.0.7")).body == error_responses.DEALLOCATED.body


@pytest.mark.parametrize("load", [False, True])
def test_an_address_that_two_vms_have_is_no_deallocated_ones(load: bool) -> None:  # noqa: FBT001
    """Nobody can tell whose it is; once the other has left, it is the deallocated one's again."""
    fleet, document_cache = Fleet(), DocumentCache(lambda: 0.0)
    document_cache.load(fleet)

    def commit(*facts: AnyFact) -> None:
        for fact in facts:
            fleet.evolve(fact)
        if load:
            document_cache.load(fleet)
        else:
            document_cache.publish(Commit((Entry(1, NOW, "c", NODE, facts),), fleet))

    commit(WEB, VmDeallocated("web-0", "evicted"))
    address = fleet.vms["web-0"].address
    assert CallerResolver(document_cache).refusal_of(address) is error_responses.DEALLOCATED
    commit(FleetChanged(vms=(Vm("web-9", "web", address=address),)))
    assert (CallerResolver(document_cache).refusal_of(address), address in document_cache.vm_entries) == (
        error_responses.FORBIDDEN,
        False,
    )
    commit(FleetChanged(removed_vms=("web-9",)))
    assert CallerResolver(document_cache).refusal_of(address) is error_responses.DEALLOCATED
    commit(VmStarted("web-0"))
    assert (address in document_cache.vm_entries, document_cache.deallocated) == (True, {})


@on_both_loops
async def test_a_stranger_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each unknown address makes one line in the log, which names the remedy."""
    async with harness() as service:
        with caplog.at_level(logging.WARNING):
            for source in ("127.0.0.8", "127.0.0.8", "127.0.0.9"):
                await service.ask(get(), source)
        assert [vars(record)["fields"]["address"] for record in caplog.records] == ["127.0.0.8", "127.0.0.9"]
        assert "--default-vm" in caplog.text


@on_both_loops
async def test_strangers_fill_neither_log_nor_memory(caplog: pytest.LogCaptureFixture) -> None:
    """After so many unknown addresses no more are logged or remembered."""
    async with harness() as service:
        callers = CallerResolver(service.document_cache, remembered=3)
        with caplog.at_level(logging.WARNING):
            for number in range(100):
                callers.entry_of(f"10.0.0.{number}")
        assert len(caplog.records) == 4
        assert "not logged" in caplog.records[-1].message
