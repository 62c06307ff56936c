"""How the bench sees that a driver is called."""

from pathlib import Path
from time import monotonic

import pytest

from bench.record_watch import RecordWatch


def test_a_new_record_is_seen_when_it_is_opened(tmp_path: Path) -> None:
    """With the time by the clock that approvals are counted from."""
    records = RecordWatch(tmp_path)
    before = monotonic()
    (tmp_path / "event").touch()

    assert before <= records.wait_for_record() <= monotonic()
    records.close()


def test_a_directory_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    """It is said which."""
    with pytest.raises(SystemExit, match=r"nowhere cannot be watched: No such file or directory\."):
        RecordWatch(tmp_path / "nowhere")
