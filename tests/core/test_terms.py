"""What may be said of a group: the limits."""

import pytest

from forewarn.core.errors import Refused
from forewarn.core.model import GroupKind, GroupTerms, Policy
from forewarn.core.terms import check_name, check_terms

MONTH = 30 * 24 * 3600


def patient(seconds: int) -> GroupTerms:
    return GroupTerms("web", GroupKind.AVAILABILITY_SET, policy=Policy(postpone_limit=seconds))


@pytest.mark.parametrize("seconds", [0, MONTH])
def test_an_event_may_be_postponed_for_a_month(seconds: int) -> None:
    """Or not at all."""
    check_terms(patient(seconds))


@pytest.mark.parametrize("seconds", [-1, MONTH + 1])
def test_a_longer_postponement_is_refused(seconds: int) -> None:
    """So is a negative one."""
    with pytest.raises(Refused, match=f"postpone_limit must be from 0 to {MONTH} s"):
        check_terms(patient(seconds))


@pytest.mark.parametrize("seconds", [300, 900])
def test_a_scale_set_may_have_five_to_fifteen_minutes_of_terminate_notice(seconds: int) -> None:
    """The limits included."""
    check_terms(GroupTerms("web", GroupKind.SCALE_SET, terminate_notice=seconds))


@pytest.mark.parametrize("seconds", [299, 901])
def test_another_terminate_notice_is_refused(seconds: int) -> None:
    """With the limits, as they are written."""
    with pytest.raises(Refused, match="terminate_notice must be from PT5M to PT15M"):
        check_terms(GroupTerms("web", GroupKind.SCALE_SET, terminate_notice=seconds))


def test_a_name_has_up_to_eighty_characters() -> None:
    """Also that of a group."""
    check_name("VM", "a" * 80)
    with pytest.raises(Refused, match="up to 80 letters"):
        check_name("VM", "a" * 81)
    with pytest.raises(Refused, match="is not a valid name"):
        check_terms(GroupTerms("a b", GroupKind.SCALE_SET))
