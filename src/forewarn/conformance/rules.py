"""The table of all protocol rules by name, with their sources. The page ``azure.md`` is generated from it.

The check of a rule has the rule's name; some rules cannot be checked over HTTP.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from forewarn.core.event_types import EVENT_TYPES
from forewarn.wire import error_responses as errors
from forewarn.wire.azure_names import TYPES, TYPES_SHOWN
from forewarn.wire.error_responses import ErrorResponse
from forewarn.wire.versions import SCHEDULED_EVENTS


class RuleSource(StrEnum):
    """The origin of the rule."""

    AZURE = "Azure"
    """Azure documents it, or was seen doing it."""
    OURS = "ours"
    """Azure is silent, or Forewarn differs on purpose."""


class ProtocolRule(msgspec.Struct, frozen=True):
    """One promise."""

    name: str
    by: RuleSource
    promise: str
    """A sentence; of a refusal when it is given, of an api-version what it shows."""
    problem: ErrorResponse | None = None
    """How what breaks it is refused."""


Rule = ProtocolRule
AZURE, OURS = RuleSource
_NO_SUCH_EVENT = errors.bad_request("there is no unfinished event '...'")
_VERSION_INVALID = errors.version_invalid(SCHEDULED_EVENTS.newest)


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _types_since(version: str) -> str:
    """Return the types that an api-version is the first to show."""
    return _listed(word for word, since in TYPES_SHOWN.values() if since == version)


# fmt: off
RULES = {
    "requests": (
        Rule("path-any-case", AZURE, "Paths count in upper and lower case alike, and may end in a slash."),
        Rule("header-any-case", AZURE, "The header's name and its value `true` count in any case."),
        Rule("parameter-any-case", OURS,
             "Names of query parameters count in any case; unknown parameters mean nothing."),
        Rule("preview-path-is-gone", AZURE, "`/metadata/latest/scheduledevents`, the path of the preview, is 404."),
        Rule("latest-is-no-version", AZURE, "`api-version=latest` is 400, like any version that is not in the list."),
        Rule("head-is-get-without-body", OURS, "HEAD answers as GET does, without the body."),
        Rule("old-http-is-answered", OURS,
             "HTTP/1.0 is answered too; the connection then closes unless it asks to be kept."),
        Rule("answer-headers", AZURE,
             "An answer has `Content-Type: application/json; charset=utf-8`, `Server: Forewarn`, `Date` and "
             "`Content-Length`, in this order."),
    ),
    "versions": (
        Rule("version-2017-03-01", AZURE,
             "`EventId`, `EventStatus`, `EventType`, `ResourceType`, `Resources`, `NotBefore`; "
             f"{_types_since('2017-03-01')}; names of VMs begin with `_`, but not those of a cloud service; POST "
             "needs no `Metadata` header"),
        Rule("version-2017-08-01", AZURE, "names as they are; the header is needed always"),
        Rule("version-2017-11-01", AZURE, f"{_types_since('2017-11-01')} too"),
        Rule("version-2019-01-01", AZURE, f"{_types_since('2019-01-01')} too"),
        Rule("version-2019-04-01", AZURE, "`Description`"),
        Rule("version-2019-08-01", AZURE, "`EventSource`"),
        Rule("version-2020-07-01", AZURE, "`DurationInSeconds`"),
        Rule("hidden-events-count", OURS,
             "An event of a type that a version does not show still raises the incarnation of that version."),
        Rule("versions-apart", AZURE, "A version that only the other route knows is refused."),
        Rule("versions-listed", AZURE,
             "`/metadata/versions` needs no api-version and lists those of both routes, oldest first: "
             '`{"apiVersions":["2017-03-01",...]}`.'),
    ),
    "document": (
        Rule("one-line-of-json", AZURE, "The body is JSON on one line, without blanks between its parts."),
        Rule("key-order", AZURE, "Keys stand in the order of the example above."),
        Rule("incarnation-is-a-number", AZURE, "`DocumentIncarnation` is a JSON integer."),
        Rule("incarnation-begins-at-one", AZURE,
             "A group that never had an event shows incarnation 1 and no events."),
        Rule("incarnation-rises-by-one", AZURE,
             "Each visible change raises it by one: an event appears, starts, ends. Approval alone does not."),
        Rule("incarnation-never-falls", OURS, "It never falls, not even after a group was switched off."),
        Rule("id-in-upper-case", AZURE, "`EventId` is a GUID in upper case with hyphens."),
        Rule("id-for-life", AZURE, "An event keeps its id from Scheduled to its end."),
        Rule("resource-type", AZURE, "`ResourceType` is always `VirtualMachine`."),
        Rule("resources-by-name", OURS,
             "`Resources` are VM names in alphabetical order, fixed for the event's life."),
        Rule("events-by-announcement", OURS, "`Events` stand in the order in which they were announced."),
        Rule("not-before-in-rfc-1123", AZURE,
             "`NotBefore` is like `Mon, 19 Sep 2016 18:29:47 GMT`, in every version."),
        Rule("not-before-is-empty-once-started", AZURE,
             "Once the event is Started, `NotBefore` is the empty string."),
        Rule("statuses", AZURE,
             "`EventStatus` is Scheduled or Started; an event that ended or was canceled is gone."),
        Rule("duration", AZURE, "`DurationInSeconds` is the expected interruption; -1 is unknown."),
    ),
    "asking": (
        Rule("etag", OURS,
             "Every document has an `ETag`, which changes with each incarnation. Take it as it is; it is made as "
             '`"<group>-<incarnation>"`.'),
        Rule("not-modified", AZURE,
             "`If-None-Match` with that tag answers 304 without a body while nothing changed."),
        Rule("tags-in-any-spelling", OURS,
             "The tag counts with or without quotes, with `W/`, in a list; `*` stands for any."),
        Rule("tag-of-another-group", OURS, "A tag of another group, or the bare incarnation, matches nothing."),
        Rule("wait-for-a-change", OURS,
             "`Prefer: wait=N` beside `If-None-Match` answers when the document changes; the answer says "
             "`Preference-Applied: wait`."),
        Rule("wait-in-vain", OURS,
             "When nothing changed after N seconds, the answer is 304, with `Preference-Applied: wait`. N is at "
             "most 300."),
        Rule("wait-without-tag", OURS,
             "Without `If-None-Match` there is nothing to wait for, and the document comes at once."),
    ),
    "approvals": (
        Rule("approval-answers-200", AZURE, "A good approval answers 200 with an empty body."),
        Rule("approval-starts-the-event", AZURE,
             "It starts the event at once, unless it must wait for [its turn](#phases-of-an-event)."),
        Rule("approval-by-a-neighbour", AZURE,
             "Any VM of the group may approve, and approves for all VMs of the event."),
        Rule("approval-by-all", OURS,
             'In a group with `approval = "all"`, every running VM of the event must approve for itself; a '
             "neighbour's word answers 200, is recorded, and does not count."),
        Rule("approval-by-a-quorum", OURS,
             'In a group with `approval = "quorum"`, as many VMs of the group must approve as its `quorum` says, '
             "or all that run, if they are fewer."),
        Rule("postponement", OURS,
             '`{"PostponeRequests":[{"EventId":"...","Seconds":600,"Reason":"..."}]}` asks for more time, within '
             "the group's `postpone_limit`; `NotBefore` moves. Where the group allows none, and for "
             f"{_listed(TYPES[type_] for type_, traits in EVENT_TYPES.items() if traits.ends_vm)}, it is 400."),
        Rule("approval-again", AZURE, "Approving again, or when it has started, answers 200 and changes nothing."),
        Rule("approval-of-several", AZURE, "One request may approve several events."),
        Rule("approval-of-none", OURS, "An empty list answers 200."),
        Rule("approval-whole-or-not", OURS,
             "One id that is unknown, finished or of another group gives 400, and nothing is approved."),
        Rule("approval-id-in-any-case", AZURE, "Ids count in any case."),
        Rule("approval-in-any-version", AZURE,
             "The api-version may be another than the one the document was read with."),
        Rule("approval-content-type", AZURE, "The request's `Content-Type` means nothing."),
        Rule("approval-old-keys", AZURE,
             "`DocumentIncarnation` in the body, as text or number, means nothing; neither do other keys."),
        Rule("approval-without-header", AZURE,
             "With api-version 2017-03-01, and with no other, POST needs no `Metadata` header."),
        Rule("approval-unreadable", AZURE,
             "A body that is not JSON, or lacks `StartRequests` or an `EventId`, is 400 and says what is wrong."),
    ),
    "refusals": (
        Rule("refused-http", OURS,
             "this is not HTTP/1.1 as RFC 9112 has it: a bare line feed, two lengths, no `Host`", errors.MALFORMED),
        Rule("refused-slow", OURS, "a request does not arrive within 10 seconds", errors.TIMEOUT),
        Rule("refused-large-body", OURS, "a body has more than 64 KiB", errors.BODY_TOO_LARGE),
        Rule("refused-long-line", OURS, "the request line has more than 8 KiB", errors.URI_TOO_LONG),
        Rule("refused-expectation", OURS, "`Expect` is not `100-continue`", errors.EXPECTATION_FAILED),
        Rule("refused-large-head", OURS, "the head has more than 16 KiB, or 100 fields", errors.HEADERS_TOO_LARGE),
        Rule("refused-coding", OURS,
             "the body comes in another transfer coding than chunked", errors.NOT_IMPLEMENTED),
        Rule("refused-http-version", OURS,
             "HTTP/2.0 or anything else that is not 1.x", errors.HTTP_VERSION_UNSUPPORTED),
        Rule("refused-host", OURS,
             "the host that the request names, in `Host` or in the target, has a dot, is not an address, and is not "
             "in `allowed_hosts`", errors.HOST_NOT_ALLOWED),
        Rule("refused-stranger", OURS, "no VM of the fleet has the caller's address", errors.FORBIDDEN),
        Rule("refused-deallocated", OURS, "the VM with the caller's address is deallocated", errors.DEALLOCATED),
        Rule("refused-rate", AZURE,
             "more than 5 requests a second and 20 at once; `Retry-After` says how long to wait",
             errors.TOO_MANY_REQUESTS),
        Rule("refused-without-header", AZURE,
             "`Metadata: true` is missing, or has another value", errors.METADATA_HEADER_MISSING),
        Rule("refused-forwarded", AZURE, "there is an `X-Forwarded-For` header", errors.FORWARDED),
        Rule("refused-duplicate", AZURE, "a query parameter is there twice", errors.DUPLICATE_PARAMETER),
        Rule("refused-version", AZURE,
             "the api-version is missing or not one of the route's; `newest-versions` names the newest three of "
             "the route, newest first", _VERSION_INVALID),
        Rule("refused-route", AZURE,
             "there is no such path, or no such element below `/metadata/instance`", errors.NOT_FOUND),
        Rule("refused-method", AZURE,
             "the route has no such method; `Allow` names those it has", errors.METHOD_NOT_ALLOWED),
        Rule("refused-body", AZURE,
             "an approval cannot be read, or names an event that is not there", _NO_SUCH_EVENT),
        Rule("refused-format", OURS,
             "the `format` of `/metadata/instance` is neither json nor text", errors.FORMAT_UNKNOWN),
        Rule("refused-leaf-as-json", AZURE,
             "a single value of `/metadata/instance` was asked for without `format=text`", errors.LEAF_AS_JSON),
        Rule("refused-while-failing", AZURE,
             "what had to be recorded could not be: the disk is full, say", errors.INTERNAL_ERROR),
        Rule("refused-when-full", OURS, "all connections that `connections` allows are taken", errors.UNAVAILABLE),
        Rule("check-order", AZURE, "Of several things that are wrong, the first in the order above is answered."),
        Rule("root-without-version", AZURE,
             "A GET of the bare `/metadata` without an api-version gives the version refusal, not 404."),
        Rule("refusals-are-free", OURS, "403 and 429 answers do not count towards the rate."),
    ),
    "scope": (
        Rule("scope-of-a-group", AZURE, "Every VM of a group sees all events of the group."),
        Rule("scope-of-one", AZURE, "A standalone VM sees its own events only."),
        Rule("no-sight-of-others", AZURE, "No VM sees or approves an event of another group."),
        Rule("first-get-enrols", AZURE,
             "The first GET of any of its VMs switches a group on. It is answered as soon as that is durable, "
             "not delayed."),
        Rule("off-means-at-once", AZURE,
             "While a group is off, what its users ask for runs at once: the event is born Started."),
        Rule("off-is-announced-all-the-same", OURS,
             "Platform maintenance of a group that is off is announced with full notice."),
        Rule("idle-groups-go-off", AZURE, "After 24 hours without a GET, a group is switched off."),
        Rule("deallocated-may-not-ask", OURS, "A deallocated VM gets 403 until it is started."),
    ),
    "life": (
        Rule("never-early", AZURE, "An event does not start before NotBefore unless it is approved."),
        Rule("starts-when-due", AZURE, "When NotBefore has passed, it starts without approval."),
        Rule("gone-when-done", AZURE, "When the impact is over, the event is gone from the document."),
        Rule("gone-when-canceled", AZURE,
             "A Scheduled event that is canceled is gone; a Started one cannot be canceled."),
        Rule("one-update-domain", OURS,
             "An event holds VMs of one update domain on one host; a host's maintenance makes one event per "
             "group and update domain."),
        Rule("turns", OURS,
             "Platform maintenance of one group is not Started together unless it shares update and fault "
             "domain; what must wait stays Scheduled, and a POST answers 200."),
        Rule("preempt-leaves-it-deallocated", AZURE,
             "After Preempt the VM is deallocated, or removed where the group's eviction policy says so."),
        Rule("terminate-removes-it", AZURE, "After Terminate the VM is no longer in the fleet."),
        Rule("deallocation-clears", AZURE,
             "Deallocating a VM announces nothing and cancels what was Scheduled for it alone."),
    ),
    "instance": (
        Rule("instance-whole", AZURE,
             "`/metadata/instance` has `compute` and `network`; in `compute` are location, name, "
             "osType, platformFaultDomain, platformUpdateDomain, resourceGroupName, subscriptionId, tags, "
             "tagsList, vmId, vmScaleSetName, vmSize and zone."),
        Rule("instance-values-are-text", AZURE,
             "Every value in `compute` is text, numbers too; only `tagsList` is a list."),
        Rule("instance-by-path", AZURE,
             "A part is had by its path, in any case: `/metadata/instance/compute/tagsList`."),
        Rule("instance-as-text", AZURE,
             "`format=text` gives a single value as it is, and of anything else the names below it, those with "
             "more below ending in `/`."),
        Rule("instance-by-version", AZURE,
             "Keys appear with the api-version that brought them: resourceGroupName, subscriptionId and tags "
             "with 2017-08-01, zone and vmScaleSetName with 2017-12-01, tagsList with 2019-06-04."),
        Rule("instance-network", AZURE,
             "`network` has a list `interface`; in each are `ipv4` with `ipAddress` (privateIpAddress and "
             "publicIpAddress) and `subnet` (address and prefix), `ipv6` with `ipAddress`, and `macAddress`, "
             "twelve digits."),
        Rule("instance-network-first-version", AZURE,
             "2017-03-01 has other words there: ipaddress, publicip and mac."),
        Rule("instance-id-of-its-own", OURS,
             "A VM declared without `vm_id` has one made from its name, always the same."),
    ),
}
# fmt: on
"""The rules, by the part of the page that tells them."""
BY_NAME = {rule.name: rule for rules in RULES.values() for rule in rules}
