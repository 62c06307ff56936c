"""The keys of what a fleet file declares."""

import pytest

from forewarn.core.declared_keys import HeldChange, HoldReason, RecordKind, declared_form, differing_keys, keys_of
from forewarn.core.model import ApprovalRule, GroupKind, GroupTerms, Interface, Policy, Vm


@pytest.mark.parametrize(
    ("held", "action"),
    [
        (HeldChange(RecordKind.VM, "a", HoldReason.EVENT, ("group", "spot")), "change of group, spot"),
        (HeldChange(RecordKind.VM, "a", HoldReason.EVENT, is_removal=True), "removal"),
        (HeldChange(RecordKind.VM, "a", HoldReason.EVENT), "addition"),
    ],
)
def test_a_held_change_is_told_in_words(held: HeldChange, action: str) -> None:
    """A record that is to come or go has no keys that wait."""
    assert held.action == action


def test_the_name_and_what_happened_at_run_time_are_no_keys() -> None:
    """A file says neither where a VM was moved nor whether it runs; the records within give their keys."""
    keys = keys_of(Vm("a", "web", interface=Interface(tap="tap0")))

    assert keys.keys().isdisjoint({"name", "moved_to", "deallocated", "interface", "instance"})
    assert keys["tap"] == "tap0"


def test_keys_that_make_sense_only_together_change_together() -> None:
    """The approval and its quorum; the kind and its terminate notice."""
    any_, quorum = (
        GroupTerms("web", GroupKind.SCALE_SET, rule, policy=Policy(quorum=number))
        for rule, number in ((ApprovalRule.ANY, 0), (ApprovalRule.QUORUM, 2))
    )
    three = GroupTerms("web", GroupKind.SCALE_SET, ApprovalRule.QUORUM, policy=Policy(quorum=3))
    set_ = GroupTerms("web", GroupKind.AVAILABILITY_SET)

    assert differing_keys(any_, quorum) == differing_keys(quorum, three) == {"approval", "quorum"}
    assert differing_keys(any_, set_) == {"kind", "terminate_notice"}


def test_what_is_declared_of_a_vm_says_nothing_of_run_time() -> None:
    """Neither where it was moved nor that it does not run."""
    assert declared_form(Vm("a", "web", "h1", moved_to="h2", deallocated=True)) == Vm("a", "web", "h1")
