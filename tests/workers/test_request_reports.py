"""Reports of a worker: each request is reported once, and the counters as they are."""

from forewarn.core.facts import Fetch
from forewarn.core.model import GroupKind, GroupTerms
from forewarn.core.notice import Rules
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.document_cache import DocumentCache, GroupDocuments
from forewarn.metadata.limits import Limits
from forewarn.metadata.request_records import GroupAsked, RequestRecords
from forewarn.metadata.service import MetadataService
from forewarn.wire.versions import API_VERSIONS
from forewarn.workers.request_reports import RequestReports
from tests.metadata.harness import NOW


async def _nothing(*_: object) -> None:
    pass


class ReportsHarness:
    """The reports of a worker that knows some groups."""

    def __init__(self, *groups: str, groups_in_a_row: int = 20_000) -> None:
        self.document_cache = cache = DocumentCache(lambda: 0.0)
        for name in groups:
            terms = GroupTerms(name, GroupKind.STANDALONE)
            documents = GroupDocuments(terms, 1, (), is_enrolled=True, is_listed=True, asked=5.0, marked=5.0)
            cache.groups[name] = documents
            cache.enrolled.append(documents)
        self.records = RequestRecords(cache, Rules(), lambda: 0.0, lambda: NOW, groups_in_a_row=groups_in_a_row)
        self.service = MetadataService(
            cache,
            CallerResolver(cache),
            self.records,
            Limits(),
            enrol=_nothing,
            approve=_nothing,
            seconds=lambda: 0.0,
            now=lambda: NOW,
        )
        self.reports = RequestReports(self.records, self.service, lambda: 0.25)

    def ask(self, group: str, at: float, vm: str) -> None:
        documents = self.document_cache.groups[group]
        documents.asked, documents.asked_by = at, vm

    def asked(self) -> list[GroupAsked]:
        return list(self.reports.next().asked)


def test_a_group_that_asked_is_reported_once() -> None:
    """With the time and the VM of its last request; one that did not ask is not reported."""
    harness = ReportsHarness("a", "b", "c")
    harness.ask("b", 7.0, "b-1")

    assert harness.asked() == [GroupAsked("b", 7.0, "b-1")]
    assert harness.asked() == []
    harness.ask("b", 8.0, "b-2")
    assert harness.asked() == [GroupAsked("b", 8.0, "b-2")]


def test_many_groups_are_looked_at_in_turn() -> None:
    """No report takes long, and none of the groups is forgotten."""
    harness = ReportsHarness("a", "b", "c", "d", "e", groups_in_a_row=2)
    for name in "abcde":
        harness.ask(name, 7.0, f"{name}-0")

    found = [asked.group for _ in range(3) for asked in harness.asked()]

    assert sorted(found) == ["a", "b", "c", "d", "e"]


def test_groups_that_were_switched_off_leave_the_list() -> None:
    """Also when all of them were."""
    harness = ReportsHarness("a", "b", "c")
    for name in "ab":
        harness.document_cache.groups[name].is_enrolled = False
    harness.ask("c", 7.0, "c-0")
    assert [asked.group for _ in range(2) for asked in harness.asked()] == ["c"]
    harness.document_cache.groups["c"].is_enrolled = False
    assert harness.asked() == []
    assert harness.document_cache.enrolled == []


def test_fetches_and_counters_are_in_the_report() -> None:
    """Fetches since the last one, counters since the start."""
    harness = ReportsHarness()
    fetch = Fetch("e1", "a-0", NOW)
    harness.records.add_fetches((fetch,))
    harness.service.common_headers.refusals[403] = 3
    harness.service.delays.add(0.0001)
    first, second = harness.reports.next(), harness.reports.next()

    assert (first.fetches, second.fetches) == ((fetch,), ())
    assert first.refusals == second.refusals == {403: 3}
    assert first.documents == ((0, 0),) * len(API_VERSIONS)
    assert (first.delays, sum(first.delays)) == (second.delays, 1)
    assert (first.long_polls, first.leader_age) == (0, 0.25)
