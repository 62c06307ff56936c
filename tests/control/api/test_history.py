"""The record over HTTP and from the command line, against a service that answers."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.cli.root import run
from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import Client
from forewarn.control.transport import UnixTransport
from forewarn.core.errors import BadInput, Unknown
from tests.office import Office, opened


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with opened(tmp_path) as office:
        with Client.local(tmp_path) as client:
            for name in ("web-0", "web-1", "db"):
                client.operate_vm(name, VmOperationBody(operation="freeze"))
        yield office


@pytest.fixture
def client(office: Office) -> Iterator[Client]:
    with Client.local(office.directory) as client:
        yield client


def exported(office: Office, query: str) -> tuple[str, str]:
    transport = UnixTransport(office.directory)
    answer = transport.request("GET", f"/v1/history/export?{query}", None, {})
    said = answer.headers["Content-Type"], transport.read(answer).decode()
    transport.close()
    return said


def test_history_is_read_in_pages(client: Client) -> None:
    """Page by page, a group's lines are what they are at once."""
    whole = list(client.history(group="web"))

    assert [line.fact for line in whole] == ["announced", "announced", "fleet-changed"]
    assert list(client.history(group="web", limit=1)) == whole
    assert list(client.history(group="web", order="oldest", limit=2)) == whole[::-1]


def test_history_is_bounded_by_time(office: Office, client: Client) -> None:
    """A time without a zone means nothing and is refused."""
    now = office.clock.now().isoformat()

    assert list(client.history(until=now)) == []
    assert len(list(client.history(since=now))) == 5
    with pytest.raises(BadInput, match="since"):
        list(client.history(since="2026-01-31T14:32:00"))


def test_an_unknown_name_comes_with_the_nearest(client: Client) -> None:
    """A VM that is neither on record nor in the fleet is refused; a cursor from elsewhere too."""
    with pytest.raises(Unknown, match="did you mean 'web-0'"):
        list(client.history(vm="wbe-0"))
    with pytest.raises(BadInput, match="cursor"):
        client.get("/v1/history?cursor=bm8", object)


def test_history_is_exported_whole(office: Office) -> None:
    """As CSV with one head, and as JSON lines; oldest first unless asked otherwise."""
    kind, text = exported(office, "vm=web-0")
    head, *rows = csv.reader(io.StringIO(text))
    assert kind.startswith("text/csv")
    assert [dict(zip(head, row, strict=True))["fact"] for row in rows] == ["fleet-changed", "announced"]

    kind, text = exported(office, "format=jsonl&order=newest&limit=3")
    assert kind.startswith("application/jsonl")
    assert [json.loads(line)["group"] for line in text.splitlines()] == ["db", "web", "web"]


@pytest.mark.parametrize("flags", [("--vm", "web-0"), ("--group", "web", "--limit", "2"), ("--since", "2020-01-31")])
def test_the_command_line_prints_the_same_three_ways(
    office: Office, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    """A table for people, CSV and JSON lines for programs."""
    command = ["--data", str(office.directory), "history", *flags]
    assert run(command) == run([*command, "--csv"]) == run([*command, "--json"]) == 0
    printed = capsys.readouterr().out.replace("\r\n", "\n").splitlines()
    begins = [
        number for number, line in enumerate(printed) if line.startswith(("RECORDED", "revision", '{"revision'))
    ]

    assert "announced" in printed[begins[0] + 1]
    assert len(printed[begins[0] : begins[1]]) == len(printed[begins[1] : begins[2]])
    assert len(printed[begins[2] :]) == len(printed[begins[0] + 1 : begins[1]])


def test_a_caller_of_whom_nothing_is_known_has_no_history(office: Office, capsys: pytest.CaptureFixture[str]) -> None:
    """That is said in a sentence, and is no error."""
    assert run(["--data", str(office.directory), "history", "--caller", "nobody"]) == 0
    assert capsys.readouterr().out == "nothing is on record that fits\n"
