"""A node that is told to be silent answers 503 to every VM, also to those that wait for a change."""

import asyncio

from forewarn.clocks import ManualClock
from forewarn.cluster.metadata_service import ClusterMetadataService
from forewarn.config.settings import Settings
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Vm
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleetfile.parser import DesiredFleet
from forewarn.journal.memory import MemoryJournal
from forewarn.metadata.request import AllowedHosts, RequestCache
from forewarn.wiring import Assembly

_GET = b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n"


class _Receiver:
    def __init__(self) -> None:
        self.delivered: list[bytes] = []

    def deliver(self, response: bytes) -> None:
        self.delivered.append(response)


def test_a_silent_node_answers_503_until_it_is_told_to_speak() -> None:
    """Requests that wait are answered at once."""

    async def story() -> None:
        clock = ManualClock()
        driver = SimulatedDriver.from_settings({}, clock, 1.0)
        settings = Settings()
        assembly = Assembly(settings, clock, MemoryJournal(), driver, service=ClusterMetadataService)
        await assembly.node.start()
        fleet = DesiredFleet(
            {},
            {"web": GroupTerms("web", GroupKind.AVAILABILITY_SET)},
            {"web-0": Vm("web-0", "web", address="10.0.0.1")},
        )
        await assembly.declare(fleet, Caller(CallerKind.OPERATOR, "root"))
        await assembly._enrol("web", "web-0")
        service = assembly.metadata
        assert isinstance(service, ClusterMetadataService)
        read = RequestCache(AllowedHosts(())).read_single
        plain = read(_GET + b"\r\n")
        assert plain
        waiting = read(_GET + b'If-None-Match: "web-1"\r\nPrefer: wait=60\r\n\r\n')
        receiver = _Receiver()
        first = service.answer(plain, b"", "10.0.0.1", receiver)
        assert isinstance(first, bytes)
        assert first.startswith(b"HTTP/1.1 200")
        if waiting:
            service.answer(waiting, b"", "10.0.0.1", receiver)
        service.silence()
        silent = service.answer(plain, b"", "10.0.0.1", receiver)
        assert isinstance(silent, bytes)
        assert silent.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 1" in silent
        assert all(each.startswith(b"HTTP/1.1 503") for each in receiver.delivered)
        service.is_silent = False
        again = service.answer(plain, b"", "10.0.0.1", receiver)
        assert again == first
        await assembly.node.stop()

    asyncio.run(story())
