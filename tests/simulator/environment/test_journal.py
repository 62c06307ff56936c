"""The journal on a simulated disk: the same promises as every journal, and faults on demand."""

from collections.abc import Iterator

import pytest

from forewarn.journal.port import AppendUnknown, Journal, JournalFailed, NotWritten
from forewarn.simulator.environment.journal import AppendFault, SimulatedDisk, SimulatedJournal
from forewarn.testing.journal_contract import JournalContract, hosts


class TestSimulatedJournal(JournalContract):
    """It keeps what every journal promises."""

    @pytest.fixture
    def journal(self) -> Iterator[Journal]:
        journal = SimulatedJournal(SimulatedDisk())
        yield journal
        journal.close()


@pytest.mark.parametrize(
    ("fault", "error", "revision"),
    [
        (AppendFault.REFUSED, NotWritten, 0),
        (AppendFault.UNKNOWN_LOST, AppendUnknown, 0),
        (AppendFault.UNKNOWN_WRITTEN, AppendUnknown, 1),
    ],
)
def test_a_fault_leaves_all_or_nothing(fault: AppendFault, error: type[Exception], revision: int) -> None:
    """Another process finds on the disk what the fault left."""
    disk = SimulatedDisk()
    journal = SimulatedJournal(disk)
    journal.load()
    disk.next_faults.append(fault)
    with pytest.raises(error):
        journal.append(0, hosts(1, 1))

    assert SimulatedJournal(disk).load().revision == revision


def test_a_disk_that_cannot_be_read_is_said() -> None:
    """It is read again when it can be."""
    disk = SimulatedDisk()
    disk.is_unreadable = True
    with pytest.raises(JournalFailed):
        SimulatedJournal(disk).load()
    disk.is_unreadable = False

    assert SimulatedJournal(disk).load().revision == 0
