"""What the load generator is given, and what it prints."""

from pathlib import Path

import pytest

from bench.approvals import Restart, approval_request
from bench.generator import Generator, around_event, read_summary
from bench.wrk import TARGET, Load
from forewarn.metadata.http_grammar import read_head
from forewarn.wire import approval

EVENT = "602d9444-d2cd-49c7-8624-8643e7171297"


def test_a_request_approves_one_event() -> None:
    """It is well-formed, and its length is right."""
    request = approval_request(EVENT)
    head, end, body = request.partition(b"\r\n\r\n")
    fields = read_head(head + end).fields

    assert fields[b"metadata"] == b"true"
    assert fields[b"content-length"] == str(len(body)).encode()
    assert approval.parse(body).events == (EVENT,)


def test_the_generator_sends_that_request() -> None:
    """It puts the id of each event between two texts."""
    before, after = around_event([Restart("127.0.0.1", EVENT)], TARGET)

    assert (before + EVENT + after).encode() == approval_request(EVENT)


def test_events_with_ids_of_different_lengths_do_not_fit_one_request() -> None:
    """The length of the body would be wrong for some."""
    with pytest.raises(ValueError, match="too many values"):
        around_event([Restart("127.0.0.1", EVENT), Restart("127.0.0.2", "short")], TARGET)


def test_the_summary_is_read() -> None:
    """Approvals, seconds, refusals."""
    load = read_summary(b"5000 0.500000 0\n")

    assert load == Load(5_000, 0, 0.5)
    assert load.rate == 10_000


def test_refused_approvals_measure_nothing() -> None:
    """The error tells how many there were, and the first answer."""
    with pytest.raises(SystemExit, match=r"3 of 5000 .* refused, the first with: HTTP/1.1 429 Too Many Requests"):
        read_summary(b"5000 0.500000 3 HTTP/1.1 429 Too Many Requests\n")


def test_without_a_compiler_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The packages are named."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SystemExit, match="apt-get install gcc libc6-dev"):
        Generator(tmp_path)
