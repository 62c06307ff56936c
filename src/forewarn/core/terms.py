"""Limits of group terms, and valid names of hosts, groups and VMs."""

import re

from forewarn.core import quiet_hours
from forewarn.core.errors import Refused
from forewarn.core.model import ApprovalRule, GroupKind, GroupTerms

LONGEST_NAME = 80
NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
"""Pattern of names of hosts, groups and VMs."""
ONE_LINE = r"[^\x00-\x1f\x7f]"
"""Pattern of one character of a printable line."""
LONGEST_LINE = 500
"""Maximum length of a description, a reason or another shown line."""
LONGEST_IMPACT = 7 * 24 * 3600
"""Maximum announced seconds of interruption."""
DOMAINS = range(10_000)
"""Range of update and fault domains."""
MOST_VMS = 1_000_000
"""Maximum number of VMs in one request."""
LONGEST_POSTPONEMENT = 30 * 24 * 3600
"""Seconds."""
TERMINATE_NOTICE = range(5 * 60, 15 * 60 + 1)
"""Range of the terminate notice in seconds."""
TERMINATE_NOTICES = f"PT{TERMINATE_NOTICE[0] // 60}M", f"PT{TERMINATE_NOTICE[-1] // 60}M"
"""The same range in ISO 8601."""


def check_name(kind: str, name: str) -> None:
    """Refuse a name that is not valid in documents, files or commands."""
    if not NAME.fullmatch(name):
        raise Refused(
            f"{kind} {name!r} is not a valid name: use up to {LONGEST_NAME} letters, digits, '.', '_' and '-', "
            "beginning with a letter, a digit or '_'"
        )


def check_terms(terms: GroupTerms) -> None:
    check_name("group", terms.name)
    _check_policy(terms)
    if terms.terminate_notice is None:
        return
    if terms.kind is not GroupKind.SCALE_SET:
        raise Refused(f"group {terms.name!r}: terminate_notice is for scale-set groups; this is {terms.kind}")
    if terms.terminate_notice not in TERMINATE_NOTICE:
        raise Refused(f"group {terms.name!r}: terminate_notice must be from {' to '.join(TERMINATE_NOTICES)}")


def check_quorum(terms: GroupTerms, members: int) -> None:
    """Refuse a quorum that is larger than the group."""
    if terms.policy.quorum > members:
        raise Refused(
            f"group {terms.name!r}: a quorum of {terms.policy.quorum} is more than its {members} VMs can reach"
        )


def _check_policy(terms: GroupTerms) -> None:
    policy = terms.policy
    if (terms.approval is ApprovalRule.QUORUM) != (policy.quorum > 0):
        raise Refused(
            f"group {terms.name!r}: approval = quorum and quorum = N (1 or more) go together; "
            "another approval rule has no quorum"
        )
    if not 0 <= policy.postpone_limit <= LONGEST_POSTPONEMENT:
        raise Refused(f"group {terms.name!r}: postpone_limit must be from 0 to {LONGEST_POSTPONEMENT} s")
    try:
        quiet_hours.check(policy.quiet_hours)
    except Refused as refused:
        raise Refused(f"group {terms.name!r}: {refused}") from None


def normalize_name(name: str) -> str:
    """Return a key that is equal for names that clients consider equal.

    Azure: names are compared case-insensitively, and 2017-03-01 shows them with a leading underscore.
    """
    return name.removeprefix("_").lower()


def describe_name_difference(name: str, other: str) -> str:
    """Describe the difference between two such names."""
    return "in upper and lower case" if name.lower() == other.lower() else "in a leading underscore or in case"
