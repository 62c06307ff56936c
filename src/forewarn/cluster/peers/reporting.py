"""Reports to the leader, each second: who asked, who was shown what, and what VMs spent of their rate.

So the leader records requests that other nodes answered as it does with its own: a group that asks any node stays
switched on, and limits hold over all of them.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import msgspec

from forewarn.clocks import Clock, Timer
from forewarn.cluster.leadership import KnownLeader, Leadership
from forewarn.cluster.peers.client import PeerClient
from forewarn.cluster.peers.messages import (
    REPORTS,
    GroupAskedAgo,
    LeaderNews,
    NodeRequests,
    decode_news,
    decode_requests,
    encode,
)
from forewarn.cluster.peers.rates import NodeRates, RateExchange
from forewarn.core.errors import ForewarnError
from forewarn.metadata.request_records import GroupAsked, RequestRecords

log = logging.getLogger(__name__)

REPORT_EVERY = timedelta(seconds=1)
_ANSWER = 5.0
"""Seconds that the leader may take."""
_FETCHES = 20_000
"""Fetches in one report; it stays far smaller than a message may be."""


class NodeReporting:
    """Reports what this node answered, to another node or to itself, whichever leads."""

    def __init__(
        self,
        node: str,
        client: PeerClient,
        leadership: Leadership,
        records: RequestRecords,
        rates: NodeRates,
        exchange: RateExchange,
        clock: Clock,
        nodes: Callable[[], int],
        every: timedelta = REPORT_EVERY,
        most_fetches: int = _FETCHES,
    ) -> None:
        """``nodes`` returns how many nodes there are; ``every`` is the time between two reports."""
        self._node = node
        self._client = client
        self._leadership = leadership
        self._records = records
        self._rates = rates
        self._exchange = exchange
        self._clock = clock
        self._nodes = nodes
        self._every = every
        self._most_fetches = most_fetches
        self._unsent: dict[str, GroupAsked] = {}
        """Who asked, as far as a report did not arrive, by group."""
        self._unsent_spent: Counter[str] = Counter()
        self._timer: Timer | None = None
        self._reporting: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(self._every, self._begin)

    async def stop(self) -> None:
        """Send a last report."""
        if self._timer:
            self._timer.cancel()
        if self._reporting:
            await self._reporting
        await self.report()

    async def report(self) -> None:
        """Report what is new; what does not arrive is part of the next report."""
        self._rates.set_nodes(self._nodes())
        leader = self._leadership.leader
        self._client.abandon(leader)
        if self._leadership.is_leading:
            self._rates.add(self._exchange.exchange(self._node, self._rates.take()))
        elif leader is not None:
            while await self._report_to(leader):
                pass  # there are more fetches than a report may hold

    def _begin(self) -> None:
        self._reporting = asyncio.create_task(self._report_and_wait())

    async def _report_and_wait(self) -> None:
        await self.report()
        self._timer = self._clock.call_later(self._every, self._begin)

    async def _report_to(self, leader: KnownLeader) -> bool:
        """Return whether more is to be reported at once."""
        self._unsent.update({asked.group: asked for asked in self._records.take_asked()})
        self._unsent_spent.update(self._rates.take())
        fetches = self._records.take_fetches()
        now = self._clock.seconds()
        asked = tuple(GroupAskedAgo(each.group, now - each.seconds, each.vm) for each in self._unsent.values())
        message = NodeRequests(self._node, asked, fetches[: self._most_fetches], dict(self._unsent_spent))
        try:
            news = decode_news(await self._client.post(leader, REPORTS, encode(message), _ANSWER))
        except (ForewarnError, msgspec.DecodeError) as error:
            self._records.put_back(fetches)
            log.debug("a report did not reach the leader", extra={"fields": {"reason": str(error)}})
            return False
        self._records.put_back(fetches[self._most_fetches :])
        self._unsent.clear()
        self._unsent_spent.clear()
        self._rates.add(news.spent)
        return len(fetches) > self._most_fetches


class ReportReceiver:
    """Takes in the reports of the other nodes, on the leader."""

    def __init__(self, records: RequestRecords, exchange: RateExchange, seconds: Callable[[], float]) -> None:
        self._records = records
        self._exchange = exchange
        self._seconds = seconds

    async def answer(self, body: bytes) -> bytes:
        report = decode_requests(body)
        now = self._seconds()
        self._records.add_fetches(report.fetches)
        for asked in report.asked:
            self._records.note_asked(asked.group, now - asked.seconds, asked.vm)
        return encode(LeaderNews(self._exchange.exchange(report.node, report.spent)))
