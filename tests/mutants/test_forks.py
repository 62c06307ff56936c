"""Work in a process of its own."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from mutants.forks import Send, run_forked, stream_forked


def test_the_result_comes_back() -> None:
    """What the work changes stays in its process."""
    assert run_forked(lambda: os.environ.setdefault("CHANGED_IN_A_FORK", "yes"), 60) == "yes"
    assert "CHANGED_IN_A_FORK" not in os.environ


def test_work_that_takes_too_long_is_ended() -> None:
    """It has no result."""
    reader, writer = os.pipe()
    try:
        assert run_forked(lambda: str(os.read(reader, 1)), 0.1) is None
    finally:
        os.close(reader)
        os.close(writer)


def test_work_that_ends_its_process_has_an_empty_result() -> None:
    """Whatever the reason."""
    assert run_forked(lambda: sys.exit(3), 60) == ""


def test_temporary_files_are_removed() -> None:
    """Also where the work leaves them behind."""
    left = run_forked(tempfile.mkdtemp, 60)

    assert left
    assert not Path(left).exists()


def test_a_test_in_a_fork_of_a_fork_can_make_a_socket() -> None:
    """Its path has 107 bytes at most, and pytest needs most of them; a test that fails unchanged finds everything."""
    inner = run_forked(lambda: run_forked(tempfile.mkdtemp, 60) or "", 60)

    assert inner
    assert len(inner) - len(tempfile.gettempdir()) <= len("/fm-01234567/fm-01234567/tmp01234567")


def test_lines_arrive_one_by_one() -> None:
    """They can be read before the work ends."""

    def work(send: Send) -> None:
        send("a")
        send("b")

    assert list(stream_forked(work, 60)) == ["a", "b"]


@pytest.mark.end_to_end
def test_a_stream_that_takes_too_long_raises() -> None:
    """The lines before are not lost."""
    reader, writer = os.pipe()

    def work(send: Send) -> None:
        send("a")
        os.read(reader, 1)

    found = stream_forked(work, 1.0)

    assert next(found) == "a"
    with pytest.raises(TimeoutError):
        next(found)
    os.close(reader)
    os.close(writer)
