"""What operators are shown of a group: since when it is on, who asked last, and when it switches off."""

from pathlib import Path

from forewarn.control.client import ControlClient
from tests.harness import open_harness


def test_a_group_that_is_on_says_until_when(tmp_path: Path) -> None:
    """A day after one of its VMs last asked; in the list as in the detail."""
    with open_harness(tmp_path) as harness, ControlClient.local(tmp_path) as client:
        harness.enrol("web", "web-1")
        detail = client.group("web")
        listed = {group.name: group for group in client.groups()}

        assert (detail.enrolled, detail.asked_by) == (True, "web-1")
        assert detail.enrolled_at == detail.asked_at == harness.clock.now()
        assert detail.switches_off_at == harness.clock.now() + harness.node.writer.rules.idle_after
        assert listed["web"].switches_off_at == detail.switches_off_at


def test_a_group_that_is_off_does_not_switch_off(tmp_path: Path) -> None:
    """None of its VMs ever asked."""
    with open_harness(tmp_path), ControlClient.local(tmp_path) as client:
        detail = client.group("pool")

        assert (detail.enrolled, detail.enrolled_at, detail.switches_off_at) == (False, None, None)
