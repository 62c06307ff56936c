"""Contract suite for journals: subclass ``JournalContract`` and define how a journal is made.

    class TestMyJournal(JournalContract):
        @pytest.fixture
        def journal(self, tmp_path):
            journal = MyJournal(tmp_path)
            yield journal
            journal.close()

The fixture yields a journal that holds nothing and was not loaded yet. A journal that can be made to fail overrides
``fail_next_append`` too. One that takes snapshots subclasses ``MaintainedJournalContract``.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from threading import Event as Flag

import pytest

from forewarn.core.errors import ForewarnError
from forewarn.core.facts import AnyFact, Entry, FleetChanged, RecordedRequest
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Host, InstanceFacts, Vm
from forewarn.journal.port import (
    AppendUnknown,
    Journal,
    MaintainedJournal,
    NotWritten,
    RepeatedCommand,
    StaleWriter,
    SupportsReopening,
)
from forewarn.testing.calls import begin, in_time

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
OPERATOR = Caller(CallerKind.OPERATOR, "ada", "control.sock")


def entry(revision: int, *facts: AnyFact, command: str = "") -> Entry:
    """Make an entry, one second after the one before it."""
    at = NOON + timedelta(seconds=revision)
    return Entry(revision, at, command or f"command-{revision}", OPERATOR, facts)


def request(revision: int, command: str) -> Entry:
    """Make the entry of a request that changed nothing."""
    return Entry(revision, NOON, command, OPERATOR, (), RecordedRequest("fingerprint"))


def hosts(first: int, last: int) -> list[Entry]:
    """Make entries that each declare one host, named after its revision."""
    return [entry(n, FleetChanged(hosts=(Host(f"host-{n}"),))) for n in range(first, last + 1)]


def rack(revision: int) -> Entry:
    """Make an entry that declares a host, a group and a VM with all that can be said of them."""
    vm = Vm('väm "0"', "web", "rack", 1, 2, "1", "10.0.0.4", spot=True, instance=InstanceFacts(tags={"a": "b"}))
    terms = GroupTerms("web", GroupKind.SCALE_SET, terminate_notice=300)
    return entry(revision, FleetChanged(hosts=(Host("rack"),), groups=(terms,), vms=(vm,)))


def folded(entries: Sequence[Entry]) -> Fleet:
    """Fold entries by hand."""
    fleet = Fleet()
    for each in entries:
        fleet.enter(each)
    return fleet


def assert_same(one: Fleet, other: Fleet) -> None:
    """Compare two fleets by all that a snapshot of them would hold."""
    assert list(one.parts()) == list(other.parts())


class JournalContract:
    """The rules of ``forewarn.journal.port.Journal``, each as a test."""

    @pytest.fixture
    def journal(self) -> Iterator[Journal]:
        """Yield an empty journal; every subclass says how."""
        raise NotImplementedError

    @pytest.fixture
    def loaded(self, journal: Journal) -> Journal:
        """Return the journal, loaded."""
        journal.load()
        return journal

    def fail_next_append(self, journal: Journal, *, is_written: bool) -> bool:
        """Let the next append raise ``AppendUnknown``, its entries written or not; return False if that cannot be."""
        return False

    def between_batches(self, journal: Journal) -> None:
        """Do what may be done to the journal at any time; nothing, unless a subclass knows more."""

    def test_a_new_journal_is_empty(self, journal: Journal) -> None:
        """A new journal stands at revision 0 with an empty fleet, and nothing to warn of."""
        recovered = journal.load()

        assert (recovered.revision, recovered.warnings) == (0, ())
        assert_same(recovered.fleet, Fleet())
        assert list(journal.entries()) == []

    def test_what_was_appended_is_loaded_after_closing(self, loaded: Journal) -> None:
        """The fleet is the fold of everything appended, in any number of batches."""
        everything = [*hosts(1, 3), rack(4), *hosts(5, 5)]
        loaded.append(0, everything[:3])
        loaded.append(3, everything[3:])
        loaded.close()

        recovered = loaded.load()

        assert recovered.revision == 5
        assert_same(recovered.fleet, folded(everything))

    def test_entries_come_back_as_they_were(self, loaded: Journal) -> None:
        """Every field of an entry survives: microseconds, quotes, letters of every kind."""
        loaded.append(0, [rack(1)])

        assert list(loaded.entries()) == [rack(1)]

    def test_an_entry_without_facts_is_kept_like_any_other(self, loaded: Journal) -> None:
        """A request that changed nothing is recorded, and found by its command; the fleet stays as it was."""
        unchanged = Entry(2, NOON, "request", OPERATOR, (), RecordedRequest("fingerprint", ("event",)))
        loaded.append(0, [rack(1), unchanged, *hosts(3, 3)])

        assert list(loaded.entries()) == [rack(1), unchanged, *hosts(3, 3)]
        assert loaded.history("command:request") == [unchanged]
        loaded.close()
        recovered = loaded.load()
        assert recovered.revision == 3
        assert_same(recovered.fleet, folded([rack(1), unchanged, *hosts(3, 3)]))

    def test_loading_twice_changes_nothing(self, loaded: Journal) -> None:
        """Load may be repeated at any time."""
        loaded.append(0, hosts(1, 2))

        assert loaded.load().revision == loaded.load().revision == 2

    def test_a_loaded_fleet_is_the_callers_own(self, loaded: Journal) -> None:
        """What a caller does to the fleet it was given does not reach the next one who loads."""
        loaded.append(0, [rack(1)])
        loaded.load().fleet.enter(entry(2, FleetChanged(hosts=(Host("other"),))))

        assert_same(loaded.load().fleet, folded([rack(1)]))

    @pytest.mark.parametrize("expected", [0, 1, 3, 7])
    def test_a_stale_writer_is_refused(self, loaded: Journal, expected: int) -> None:
        """Who expects another revision than the last adds nothing, and may go on after loading."""
        loaded.append(0, hosts(1, 2))

        with pytest.raises(StaleWriter):
            loaded.append(expected, hosts(expected + 1, expected + 2))
        assert issubclass(StaleWriter, NotWritten)

        assert list(loaded.entries()) == hosts(1, 2)
        assert loaded.load().revision == 2
        loaded.append(2, hosts(3, 3))
        assert list(loaded.entries()) == hosts(1, 3)

    @pytest.mark.parametrize("revisions", [(2, 3), (1, 3), (1, 1), (2, 1), (0, 1)])
    def test_revisions_follow_one_by_one(self, loaded: Journal, revisions: tuple[int, ...]) -> None:
        """A batch whose numbers do not follow is refused whole."""
        with pytest.raises(ForewarnError):
            loaded.append(0, [hosts(n, n)[0] for n in revisions])

        assert list(loaded.entries()) == []

    def test_nothing_can_be_appended_as_well(self, loaded: Journal) -> None:
        """An empty batch changes nothing."""
        loaded.append(0, [])

        assert loaded.load().revision == 0

    @pytest.mark.parametrize("is_written", [True, False])
    def test_a_load_tells_what_an_append_of_unknown_outcome_did(self, loaded: Journal, *, is_written: bool) -> None:
        """All of the batch was added, or none; until the load, further appends are refused."""
        loaded.append(0, hosts(1, 2))
        if not self.fail_next_append(loaded, is_written=is_written):
            is_written = True
            loaded.append(2, hosts(3, 5))
        else:
            with pytest.raises(AppendUnknown):
                loaded.append(2, hosts(3, 5))
            with pytest.raises(NotWritten):
                loaded.append(2, hosts(3, 5))

        last = 5 if is_written else 2
        if isinstance(loaded, SupportsReopening):
            assert loaded.reopen() == last
            assert list(loaded.entries(2)) == hosts(3, last)
            loaded.append(last, ())  # it can be written again
        assert loaded.load().revision == last
        assert list(loaded.entries()) == loaded.history("caller:ada") == hosts(1, last)
        loaded.append(last, hosts(last + 1, last + 1))
        assert loaded.load().revision == last + 1

    @pytest.mark.parametrize("read", [0, 1, 2])
    def test_a_batch_that_cannot_be_read_is_added_whole_or_not_at_all(self, loaded: Journal, read: int) -> None:
        """Whatever goes wrong in the middle of an append, half a batch is never found."""

        class Broken(list[Entry]):
            def __iter__(self) -> Iterator[Entry]:
                yield from self[:read]
                raise RuntimeError("the batch broke off")

        loaded.append(0, hosts(1, 1))
        with pytest.raises(Exception, match=r"."):
            loaded.append(1, Broken(hosts(2, 4)))

        recovered = loaded.load()
        assert recovered.revision in (1, 4)
        assert list(loaded.entries()) == loaded.history("caller:ada") == hosts(1, recovered.revision)
        loaded.append(recovered.revision, hosts(recovered.revision + 1, recovered.revision + 1))

    def test_entries_can_be_paged(self, loaded: Journal) -> None:
        """Entries begin above a revision and end at a limit."""
        loaded.append(0, hosts(1, 700))

        assert list(loaded.entries()) == hosts(1, 700)
        assert list(loaded.entries(after=698)) == hosts(699, 700)
        assert list(loaded.entries(after=2, limit=3)) == hosts(3, 5)
        assert list(loaded.entries(limit=0)) == []
        assert list(loaded.entries(after=700)) == []

    def test_history_holds_what_concerns_its_subject(self, loaded: Journal) -> None:
        """History is found by subject, oldest first; a name that contains another is not that one."""
        again = entry(13, FleetChanged(removed_hosts=("host-1",)))
        loaded.append(0, hosts(1, 12))
        loaded.append(12, [again])

        assert loaded.history("host:host-1") == [*hosts(1, 1), again]
        assert loaded.history("host:host-12") == hosts(12, 12)
        assert loaded.history("command:command-7") == hosts(7, 7)
        assert len(loaded.history("caller:ada")) == 13
        assert loaded.history("vm:host-1") == loaded.history("host:nobody") == loaded.history("") == []

    def test_history_can_be_cut_to_the_newest(self, loaded: Journal) -> None:
        """With a limit, the newest entries are returned, still oldest first."""
        loaded.append(0, hosts(1, 9))

        assert loaded.history("caller:ada", limit=2) == hosts(8, 9)
        assert loaded.history("caller:ada", limit=0) == []

    def test_history_can_be_read_in_pages(self, loaded: Journal) -> None:
        """Between two revisions, from either end."""
        for first in (1, 4, 7):
            loaded.append(first - 1, hosts(first, first + 2))
            assert loaded.history("caller:ada", after=1, before=first + 1) == hosts(2, first)
            assert loaded.history("caller:ada", after=1, limit=2, from_oldest=True) == hosts(2, 3)
            self.between_batches(loaded)

        assert loaded.history("caller:ada", after=2, before=8, limit=2) == hosts(6, 7)
        assert loaded.history("caller:ada", after=2, before=8, limit=4, from_oldest=True) == hosts(3, 6)
        assert loaded.history("caller:ada", limit=9, from_oldest=True) == hosts(1, 9)
        assert loaded.history("caller:ada", before=0) == loaded.history("caller:ada", after=9) == []

    def test_names_of_every_kind_have_a_history(self, loaded: Journal) -> None:
        """Quotes and letters beyond ASCII in a name are no obstacle."""
        loaded.append(0, [rack(1)])

        assert loaded.history('vm:väm "0"') == [rack(1)]

    def test_a_command_is_found_as_soon_as_it_is_appended(self, loaded: Journal) -> None:
        """By the history of its id the writer knows that it was recorded, before and after a load."""
        assert loaded.history("command:command-2", limit=1) == []
        loaded.append(0, hosts(1, 3))

        assert loaded.history("command:command-2") == hosts(2, 2)
        loaded.load()
        assert loaded.history("command:command-2") == hosts(2, 2)

    def test_a_request_is_recorded_once(self, loaded: Journal) -> None:
        """Its command's id is refused in the same batch, in a later one, and after a load; then appending goes on."""
        loaded.append(0, [request(1, "key-1"), *hosts(2, 3)])
        self.between_batches(loaded)
        loaded.append(3, [request(4, "key-4")])

        for _ in range(2):
            for batch in (
                [*hosts(5, 5), request(6, "key-1")],
                [request(5, "key-4")],
                [request(5, "a"), request(6, "a")],
            ):
                with pytest.raises(RepeatedCommand):
                    loaded.append(4, batch)
            assert list(loaded.entries(3)) == [request(4, "key-4")]
            loaded.load()
        loaded.append(4, [request(5, "key-5")])
        assert loaded.history("command:key-1") == [request(1, "key-1")]
        assert issubclass(RepeatedCommand, NotWritten)

    @pytest.mark.parametrize("is_written", [True, False])
    def test_a_request_of_unknown_outcome_is_recorded_once(self, loaded: Journal, *, is_written: bool) -> None:
        """It can be repeated where it was not written, and only there."""
        loaded.append(0, hosts(1, 1))
        if not self.fail_next_append(loaded, is_written=is_written):
            return
        with pytest.raises(AppendUnknown):
            loaded.append(1, [request(2, "key")])
        last = loaded.reopen() if isinstance(loaded, SupportsReopening) else loaded.load().revision

        if is_written:
            with pytest.raises(RepeatedCommand):
                loaded.append(last, [request(last + 1, "key")])
        else:
            loaded.append(last, [request(last + 1, "key")])
        assert loaded.history("command:key") == [request(2, "key")]

    def test_a_follower_does_not_wait_for_what_is_there(self, loaded: Journal) -> None:
        """A wait for a revision below the last returns at once."""
        assert not loaded.follow(0, timeout=0)
        loaded.append(0, hosts(1, 2))

        assert loaded.follow(0, timeout=0)
        assert loaded.follow(1, timeout=60)
        assert not loaded.follow(2, timeout=0)

    def test_an_append_wakes_a_follower(self, loaded: Journal) -> None:
        """What it reads then is what was appended."""
        loaded.append(0, hosts(1, 1))
        following = begin(lambda: loaded.follow(1, timeout=60) and list(loaded.entries(after=1)))
        loaded.append(1, hosts(2, 3))

        assert in_time("follower", 30, following) == hosts(2, 3)

    def test_closing_lets_followers_go(self, loaded: Journal) -> None:
        """No caller waits for a closed journal."""
        following = begin(lambda: loaded.follow(0, timeout=600))
        for _ in range(300):  # the first time it may close before it is followed
            loaded.close()
            if wait((following,), 0.1).done:
                break

        assert not in_time("follower", 0, following)

    def test_readers_see_whole_batches_beside_the_writer(self, loaded: Journal) -> None:
        """A reader in another thread sees a prefix that ends between batches, never less than before."""
        done = Flag()

        def read() -> list[int]:
            seen: list[int] = []
            while not done.is_set() or not seen:
                found = list(loaded.entries())
                assert found == batches[: len(found)]
                assert len(loaded.history("caller:ada")) >= len(found)
                seen.append(len(found))
            return seen

        batches = hosts(1, 90)
        with ThreadPoolExecutor(2) as readers:
            reading = [readers.submit(read) for _ in range(2)]
            for after in range(0, 90, 3):
                loaded.append(after, batches[after : after + 3])
            done.set()
            for seen in (each.result() for each in reading):
                assert seen == sorted(seen)
                assert all(count % 3 == 0 for count in seen)

    def test_a_closed_journal_takes_nothing(self, loaded: Journal) -> None:
        """After closing, which may be repeated, appending fails until the journal is loaded."""
        loaded.append(0, hosts(1, 1))
        loaded.close()
        loaded.close()

        with pytest.raises(NotWritten):
            loaded.append(1, hosts(2, 2))
        assert loaded.load().revision == 1
        loaded.append(1, hosts(2, 2))
        assert loaded.load().revision == 2


class MaintainedJournalContract(JournalContract):
    """The rules of ``forewarn.journal.port.MaintainedJournal``, beside those of every journal."""

    @pytest.fixture
    def maintained(self, loaded: Journal) -> MaintainedJournal:
        """Return the journal, loaded, as one that takes snapshots."""
        assert isinstance(loaded, MaintainedJournal)
        return loaded

    def between_batches(self, journal: Journal) -> None:
        """Take a snapshot: pages lie before, within and after it."""
        assert isinstance(journal, MaintainedJournal)
        journal.take_snapshot()

    def test_a_snapshot_changes_nothing_but_the_time_to_load(self, maintained: MaintainedJournal) -> None:
        """Fleet, entries and history are the same after snapshots, with entries before and after them."""
        everything = [rack(1), *hosts(2, 9)]
        maintained.append(0, everything[:4])
        maintained.take_snapshot()
        maintained.append(4, everything[4:6])
        maintained.take_snapshot()
        maintained.append(6, everything[6:])

        while maintained.compact():
            pass
        recovered = maintained.load()

        assert (recovered.revision, recovered.warnings) == (9, ())
        assert_same(recovered.fleet, folded(everything))
        assert list(maintained.entries()) == everything
        assert maintained.history("caller:ada") == everything
        assert maintained.history("host:host-5", limit=1) == hosts(5, 5)

    def test_a_small_journal_needs_no_snapshot(self, maintained: MaintainedJournal) -> None:
        """A few entries are loaded quickly without one; taking one all the same does no harm."""
        assert not maintained.snapshot_due
        maintained.take_snapshot()

        assert maintained.load().revision == 0
