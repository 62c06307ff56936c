"""The highest term on a host: stored before anything begins, and never undercut."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.drivers.run_record import RecordLocked
from forewarn.drivers.term_store import TermRefused, TermStore


def store(directory: Path, *terms: int) -> None:
    for term in terms:
        with TermStore(directory).held(term):
            pass


def test_a_lower_term_is_refused(tmp_path: Path) -> None:
    """The message names both terms, and the file to delete after a restore."""
    store(tmp_path / "records", 3, 12, 12)

    with pytest.raises(TermRefused) as refused, TermStore(tmp_path / "records").held(11):
        pytest.fail("it began")
    assert str(refused.value) == (
        "a leader of term 12 was here, and this call is of term 11;"
        f" after a restore of the journal, delete {tmp_path}/records/term"
    )


def test_a_term_is_stored_before_anything_begins(tmp_path: Path) -> None:
    """What begins under the lock may fail; the term counts all the same."""
    with pytest.raises(ZeroDivisionError), TermStore(tmp_path).held(5):
        int((tmp_path / "term").read_text()) // 0

    with pytest.raises(TermRefused), TermStore(tmp_path).held(4):
        pytest.fail("it began")


def test_a_truncated_term_does_not_count_for_more(tmp_path: Path) -> None:
    """A power failure may leave the beginning of a number."""
    (tmp_path / "term").write_text("\n9\n1")

    store(tmp_path, 10)
    with pytest.raises(TermRefused), TermStore(tmp_path).held(9):
        pytest.fail("it began")


def test_one_that_begins_keeps_the_others_waiting(tmp_path: Path) -> None:
    """A higher term, too, is stored only after what has begun under the lock."""
    impatient = TermStore(tmp_path, lock_attempts=2)
    with TermStore(tmp_path).held(1), pytest.raises(RecordLocked), impatient.held(2):
        pytest.fail("it began")

    store(tmp_path, 1)


@contextmanager
def switched(directory: Path, vm: str, term: int) -> Iterator[None]:
    with TermStore(directory).switching(vm, term):
        yield


def test_a_vm_is_switched_by_one_process_at_a_time(tmp_path: Path) -> None:
    """Others may be switched meanwhile; a leader that was replaced switches none."""
    with switched(tmp_path, "web-0", 1):
        with pytest.raises(RecordLocked), switched(tmp_path, "web-0", 2):
            pytest.fail("it was switched")
        with switched(tmp_path, "web-1", 2):
            pass

    with pytest.raises(TermRefused), switched(tmp_path, "web-0", 1):
        pytest.fail("it was switched")
