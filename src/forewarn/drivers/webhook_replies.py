"""Interpret the reply of a webhook receiver. Pure functions.

request         2xx, and its ``outcome``                         other 4xx, 3xx    408, 425, 429, 5xx, unreadable
perform         done, failed, underway (also where empty)        Failed            Unclear: repeated
outcome         the same, and not-begun, unknown                 Unclear           Unclear: repeated

From a receiver that fences terms, 409 means that it refused a leader that was replaced: nothing was done.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from forewarn.core.redaction import scrubbed
from forewarn.core.terms import LONGEST_LINE
from forewarn.http.web_requests import WebResponse
from forewarn.node.driver import (
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
)

CHECK_AFTER = 5.0
REFUSED = 409
"""Status by which a receiver that fences terms refuses a lower one."""
_RETRY_STATUSES = frozenset({408, 425, 429})


class WebhookReply(msgspec.Struct, frozen=True):
    """The outcome of an impact as a receiver reports it, in a reply or a callback."""

    outcome: Literal["done", "failed", "underway", "not-begun", "unknown"] = "underway"
    hosts: dict[str, str] = {}
    """The new host of each moved VM."""
    detail: str = ""
    check_after: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = CHECK_AFTER
    """Seconds until the next poll."""


class UnclearReply(msgspec.Struct, frozen=True):
    """The reply is not conclusive; the request is repeated."""

    why: str
    wait: float = 0.0


def read_perform_reply(reply: WebResponse, vms: Collection[str], now: datetime) -> ImpactOutcome | UnclearReply:
    """Return the outcome of a ``perform`` request for ``vms``."""
    if reply.status >= 500 or reply.status in _RETRY_STATUSES:
        return UnclearReply(_said(reply), reply.wait)
    if 300 <= reply.status < 400:
        return ImpactFailed(f"{_said(reply)}; redirects are not followed: set 'url' to the address that it leads to")
    if not 200 <= reply.status < 300:
        return ImpactFailed(f"the receiver refused: {_said(reply)}")
    outcome = _read(reply, vms, now)
    if isinstance(outcome, ImpactNotBegun):
        return ImpactFailed("the receiver accepted the message and reports that it did not begin")
    return outcome


def read_outcome_reply(reply: WebResponse, vms: Collection[str], now: datetime) -> ImpactOutcome | UnclearReply:
    """Return the outcome that the receiver reports."""
    if not 200 <= reply.status < 300:
        return UnclearReply(_said(reply), reply.wait)
    return _read(reply, vms, now)


def describe_refusal(reply: WebResponse) -> str:
    """Say that a request was refused because of its term."""
    return f"the receiver refused this term: {_said(reply)}"


def outcome_of(answer: WebhookReply, vms: Collection[str], now: datetime) -> ImpactOutcome:
    detail = _plain(answer.detail)
    hosts = {vm: host for vm, host in answer.hosts.items() if vm in vms}
    match answer.outcome:
        case "done":
            unknown_vms = sorted(set(answer.hosts) - set(vms))
            if unknown_vms:
                detail = f"{detail} (hosts named for VMs that are not in the event: {', '.join(unknown_vms)})".strip()
            return ImpactDone(hosts, detail[:LONGEST_LINE])
        case "failed":
            return ImpactFailed(detail or "the receiver reported a failure", hosts)
        case "underway":
            return ImpactUnderway(now + timedelta(seconds=max(1.0, answer.check_after)), detail)
        case "not-begun":
            return ImpactNotBegun()
        case "unknown":
            return ImpactUnknown(detail or "the receiver does not know")


def _read(reply: WebResponse, vms: Collection[str], now: datetime) -> ImpactOutcome | UnclearReply:
    if not reply.body.strip():
        return outcome_of(WebhookReply(), vms, now)
    try:
        answer = msgspec.json.decode(reply.body, type=WebhookReply)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return UnclearReply(scrubbed(f"answer {reply.status} cannot be parsed: {error}", reply.secrets))
    return outcome_of(replace(answer, detail=scrubbed(answer.detail, reply.secrets)), vms, now)


def _said(reply: WebResponse) -> str:
    words = _plain(scrubbed(reply.body.decode(errors="replace"), reply.secrets))
    return f"answer {reply.status}: {words}" if words else f"answer {reply.status}"


def _plain(text: str) -> str:
    """Return a text in one line, fit for a terminal and a journal."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))[:LONGEST_LINE]
