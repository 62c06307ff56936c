"""Scheduled events for somebody's own tests: a running service, real HTTP, a clock that the test moves.

``__tracebackhide__`` lets pytest show the line of the test that expected something, and none of ours.
"""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from forewarn.emulator import Emulator
from forewarn.emulator.handles import EventHandle

URL_VARIABLE = "SCHEDULED_EVENTS_URL"
"""Where a program under test finds the address of the document of the first VM, without the api-version."""


class ScheduledEvents(Emulator):
    """An emulator with expectations, which fail with what really happened."""

    @property
    def events_url(self) -> str:
        """The address of the first VM's document, without the api-version."""
        return f"{self.url}/metadata/scheduledevents"

    def expect_approved(self, event: EventHandle | None = None, *, by: str = "", seconds: float = 5.0) -> EventHandle:
        """Return the event once it is approved; fail when it is not, within so many seconds of the real clock.

        Without ``event`` any event will do, without ``by`` anybody's approval.
        """
        __tracebackhide__ = True
        return self._expect(event, f"approved by {by or 'anybody'}", lambda each: _is_approved(each, by), seconds)

    def expect_fetched(self, event: EventHandle | None = None, *, by: str = "", seconds: float = 5.0) -> EventHandle:
        """Return the event once a VM was shown it; fail when none is in time."""
        __tracebackhide__ = True
        return self._expect(event, f"fetched by {by or 'anybody'}", lambda each: _is_fetched(each, by), seconds)

    def expect_not_approved(self, event: EventHandle | None = None, *, by: str = "") -> None:
        """Fail when the event, or any, has been approved by now."""
        __tracebackhide__ = True
        approved = [each for each in self._among(event) if _is_approved(each, by)]
        if approved:
            self._fail(f"nobody should have approved {approved[0]!r}")

    async def aexpect_approved(
        self, event: EventHandle | None = None, *, by: str = "", seconds: float = 5.0
    ) -> EventHandle:
        """Do as ``expect_approved`` does, while the event loop of the test goes on."""
        return await asyncio.to_thread(self.expect_approved, event, by=by, seconds=seconds)

    async def aexpect_fetched(
        self, event: EventHandle | None = None, *, by: str = "", seconds: float = 5.0
    ) -> EventHandle:
        """Do as ``expect_fetched`` does, while the event loop of the test goes on."""
        return await asyncio.to_thread(self.expect_fetched, event, by=by, seconds=seconds)

    def _expect(
        self, event: EventHandle | None, what: str, holds: Callable[[EventHandle], bool], seconds: float
    ) -> EventHandle:
        __tracebackhide__ = True
        if not self.wait_for(lambda: any(map(holds, self._among(event))), seconds):
            self._fail(f"{event!r} was not {what}" if event else f"no event was {what}")
        return next(filter(holds, self._among(event)))

    def _among(self, event: EventHandle | None) -> tuple[EventHandle, ...]:
        return self.events if event is None else (event,)

    def _fail(self, what: str) -> NoReturn:
        __tracebackhide__ = True
        events = [f"  {each!r}, approved by {', '.join(each.approved_by) or 'nobody'}" for each in self.events]
        requests = [f"  {each.vm}: {each.method} {each.target} -> {each.status}" for each in self.requests[-10:]]
        raise AssertionError(
            "\n".join([what, "events:", *(events or ["  none"]), "last requests:", *(requests or ["  none"])])
        )


def _is_approved(event: EventHandle, by: str) -> bool:
    return by in event.approved_by if by else bool(event.approved_by)


def _is_fetched(event: EventHandle, by: str) -> bool:
    return by in event.fetched_by if by else bool(event.fetched_by)
