"""What may be said of a group: the limits."""

import pytest

from forewarn.core.errors import Refused
from forewarn.core.model import GroupKind, GroupTerms, Policy
from forewarn.core.terms import check_terms

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
