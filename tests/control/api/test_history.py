"""The record over HTTP and from the command line, against a service that answers."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.cli.root import run
from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.control.transport import UnixTransport
from forewarn.core.errors import BadInput, Unknown
from tests.harness import ApiHarness, open_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ApiHarness]:
    with open_harness(tmp_path) as harness:
        with ControlClient.local(tmp_path) as client:
            for name in ("web-0", "web-1", "db"):
                client.operate_vm(name, VmOperationBody(operation="freeze"))
        yield harness


@pytest.fixture
def client(harness: ApiHarness) -> Iterator[ControlClient]:
    with ControlClient.local(harness.directory) as client:
        yield client


def exported(harness: ApiHarness, query: str) -> tuple[str, str]:
    transport = UnixTransport(harness.directory)
    answer = transport.request("GET", f"/v1/history/export?{query}", None, {})
    said = answer.headers["content-type"], answer.body.decode()
    transport.close()
    return said


def test_history_is_read_in_pages(client: ControlClient) -> None:
    """Page by page, a group's lines are what they are at once."""
    whole = list(client.history(group="web"))

    assert [line.fact for line in whole] == ["announced", "announced", "fleet-changed"]
    assert list(client.history(group="web", limit=1)) == whole
    assert list(client.history(group="web", order="oldest", limit=2)) == whole[::-1]


def test_history_is_bounded_by_time(harness: ApiHarness, client: ControlClient) -> None:
    """A time without a zone means nothing and is refused."""
    now = harness.clock.now().isoformat()

    assert list(client.history(until=now)) == []
    assert len(list(client.history(since=now))) == 5
    with pytest.raises(BadInput, match="since"):
        list(client.history(since="2026-01-31T14:32:00"))


def test_an_unknown_name_comes_with_the_nearest(client: ControlClient) -> None:
    """A VM that is neither on record nor in the fleet is refused; a cursor from elsewhere too."""
    with pytest.raises(Unknown, match="did you mean 'web-0'"):
        list(client.history(vm="wbe-0"))
    with pytest.raises(BadInput, match="cursor"):
        client.get("/v1/history?cursor=bm8", object)


def test_history_is_exported_whole(harness: ApiHarness) -> None:
    """As CSV with one head, and as JSON lines; oldest first unless asked otherwise."""
    kind, text = exported(harness, "vm=web-0")
    head, *rows = csv.reader(io.StringIO(text))
    assert kind.startswith("text/csv")
    assert [dict(zip(head, row, strict=True))["fact"] for row in rows] == ["fleet-changed", "announced"]

    kind, text = exported(harness, "format=jsonl&order=newest&limit=3")
    assert kind.startswith("application/jsonl")
    assert [json.loads(line)["group"] for line in text.splitlines()] == ["db", "web", "web"]


@pytest.mark.parametrize("flags", [("--vm", "web-0"), ("--group", "web", "--limit", "2"), ("--since", "2020-01-31")])
def test_the_command_line_prints_the_same_three_ways(
    harness: ApiHarness, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    """A table for people, CSV and JSON lines for programs."""
    command = ["--data", str(harness.directory), "history", *flags]
    assert run(command) == run([*command, "--csv"]) == run([*command, "--json"]) == 0
    printed = capsys.readouterr().out.replace("\r\n", "\n").splitlines()
    begins = [
        number for number, line in enumerate(printed) if line.startswith(("RECORDED", "revision", '{"revision'))
    ]

    assert "announced" in printed[begins[0] + 1]
    assert len(printed[begins[0] : begins[1]]) == len(printed[begins[1] : begins[2]])
    assert len(printed[begins[2] :]) == len(printed[begins[0] + 1 : begins[1]])


def test_a_caller_of_whom_nothing_is_known_has_no_history(
    harness: ApiHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is said in a sentence, and is no error."""
    assert run(["--data", str(harness.directory), "history", "--caller", "nobody"]) == 0
    assert capsys.readouterr().out == "nothing is on record that fits\n"
