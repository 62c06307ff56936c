"""What operators, owners, viewers, subscribers and VMs are shown of a journal that an earlier version wrote."""

from pathlib import Path
from typing import Any

import pytest

from forewarn.control.server.change_stream import ChangeStream
from tests.compatibility import views
from tests.compatibility.comparing import differences, stored
from tests.harness import ApiHarness


def test_the_api_answers_as_it_did(harness: ApiHarness, recorded: Path) -> None:
    """Events and their stories, operations, history, fleet, hosts, groups, VMs, tokens and subscriptions."""
    assert differences(stored(recorded / "answers.json"), views.answers(harness)) == []


def test_each_role_reads_its_part_of_the_record(harness: ApiHarness, recorded: Path) -> None:
    """An owner and a viewer are shown the lines that they were shown, and no others."""
    assert differences(stored(recorded / "lines.json"), views.lines(harness)) == []


def test_the_stream_of_changes_is_what_it_was(harness: ApiHarness, recorded: Path) -> None:
    """Whoever reads from the beginning gets the same ids, names of facts and data, by role."""
    assert differences(stored(recorded / "changes.json"), views.changes(harness)) == []


@pytest.mark.end_to_end
def test_the_stream_of_changes_does_not_depend_on_how_much_is_read_at_a_time(
    harness: ApiHarness, recorded: Path
) -> None:
    """Facts that do not name the group of their event reach its owner without the announcement beside them."""
    harness.context.changes = ChangeStream(harness.node, harness.journal, batch=1)

    assert differences(stored(recorded / "changes.json"), views.changes(harness)) == []


@pytest.mark.parametrize("what", [views.notices, views.metrics], ids=lambda what: what.__name__)
def test_what_follows_from_the_entries_is_what_it_was(harness: ApiHarness, recorded: Path, what: Any) -> None:
    """Notices to subscribers, and what a service counts that sees the entries committed."""
    assert differences(stored(recorded / f"{what.__name__}.json"), what(harness)) == []


def test_vms_are_shown_the_documents_that_they_were_shown(harness: ApiHarness, recorded: Path) -> None:
    """In every api-version."""
    assert differences(stored(recorded / "documents.json"), views.documents(harness.node.replica.fleet)) == []


def test_a_request_is_recognised_by_its_key(harness: ApiHarness, recorded: Path) -> None:
    """A request that the earlier version carried out is answered again, and not carried out twice."""
    revision = harness.node.replica.revision

    assert differences(stored(recorded / "replayed.json"), views.replayed(harness)) == []
    assert harness.node.replica.revision == revision
