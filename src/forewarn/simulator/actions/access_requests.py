"""Tokens of owners and of a viewer, and what is read with them."""

from forewarn.simulator.actions.planned_action import PlannedAction


class SendTwice(PlannedAction, frozen=True, kw_only=True):
    """Send the next request with a key twice at the same time, as a client does that connects again."""

    sentence = "the next request of {who} is sent twice"
    who: str


class RequestToken(PlannedAction, frozen=True, kw_only=True):
    """Give an owner another token, or an operator."""

    sentence = "ann creates a token for {owner} of {group} with key {key}"
    owner: str
    group: str
    key: str


class RequestRevocation(PlannedAction, frozen=True, kw_only=True):
    """Take the newest token of an owner back."""

    sentence = "ann revokes the token of {owner} with key {key}"
    owner: str
    key: str


class RequestRotation(PlannedAction, frozen=True, kw_only=True):
    """Give the token of an owner another secret. The owner then tries the old one, which may be valid for a while."""

    sentence = "ann rotates the token of {owner} with an overlap of {overlap} s with key {key}"
    owner: str
    overlap: int
    key: str


class RequestPassingToken(PlannedAction, frozen=True, kw_only=True):
    """Give an owner another token, which expires after so many seconds."""

    sentence = "ann creates a token for {owner} of {group} for {seconds} s with key {key}"
    owner: str
    group: str
    seconds: int
    key: str


VIEWER = "vic"
"""Who may read everything, and change nothing."""


class RequestViewer(PlannedAction, frozen=True, kw_only=True):
    """Give the viewer a token."""

    sentence = "ann creates a token for the viewer with key {key}"
    key: str


class ReadEverything(PlannedAction, frozen=True, kw_only=True):
    """Read every list of the control API."""

    sentence = "{who} reads everything"
    who: str


class ReadPage(PlannedAction, frozen=True, kw_only=True):
    """Read one page of the control API."""

    sentence = "{who} reads the page {path}"
    who: str
    path: str


class ReadOperation(PlannedAction, frozen=True, kw_only=True):
    """Read the result of the operation that was last asked for with a key."""

    sentence = "{who} reads the operation of key {key}"
    who: str
    key: str
