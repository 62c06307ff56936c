"""Selectors in requests: names, globs and labels."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated

from litestar.params import QueryParameter

from forewarn.control.api.context import ApiContext
from forewarn.control.api.problems import InvalidRequest
from forewarn.control.bodies import MOST_AT_ONCE, ApiBody, FieldError, HostSelectorBody, VmSelectorBody
from forewarn.core.access import Principal
from forewarn.core.errors import BadInput, Refused, Unknown
from forewarn.core.label_selectors import LONGEST_SELECTOR, LabelSelector, parse_selector
from forewarn.core.selectors import HostSelector, NamePatterns, VmSelector

_CHECKED = 20_000
"""Records that are looked at in one step, within a few milliseconds."""
_LONGEST_NAMES = 10_000
NamePattern = Annotated[
    str | None,
    QueryParameter(
        description="Names and globs, such as `web-*`, several joined by commas.", max_length=_LONGEST_NAMES
    ),
]
"""Parameter of a list: which names."""
LabelQuery = Annotated[
    str | None,
    QueryParameter(description="A label selector, such as `rack=r1,version<1.4`.", max_length=LONGEST_SELECTOR),
]
"""Parameter of a list: which labels."""


def read_names(given: str | None) -> NamePatterns:
    return NamePatterns(each.strip() for each in given.split(",")) if given else NamePatterns()


def read_label_query(given: str | None, place: str = "query.label") -> LabelSelector:
    try:
        return LabelSelector() if given is None else parse_selector(given)
    except BadInput as wrong:
        raise InvalidRequest(FieldError(place, str(wrong))) from None


async def select_vms(context: ApiContext, principal: Principal, body: VmSelectorBody) -> list[str]:
    """Return the names of the VMs that are meant, in order; refuse unknown names, none and too many."""
    _refuse_unrestricted(body, VmSelectorBody(), "VMs")
    selector = VmSelector(
        names=NamePatterns(body.names),
        group=body.group,
        host=body.host,
        state=body.state,
        spot=body.spot,
        labels=read_label_query(body.label, "body.select.label"),
    )
    fleet = context.fleet
    for name in selector.names.names:
        principal.vm(fleet, name)
    if body.group is not None:
        principal.group(fleet, body.group)
    if body.host is not None and principal.sees_all:
        principal.host(fleet, body.host)
    few = selector.candidates(fleet)

    def is_meant(name: str) -> bool:
        vm = context.fleet.vms.get(name)
        return vm is not None and principal.sees(vm.group) and selector.matches(context.fleet, vm)

    return await _select(principal.known_vms(fleet) if few is None else few, is_meant, "VM")


async def select_hosts(context: ApiContext, principal: Principal, body: HostSelectorBody) -> list[str]:
    """Return the names of the hosts that are meant, in order; refuse unknown names, none and too many."""
    _refuse_unrestricted(body, HostSelectorBody(), "hosts")
    selector = HostSelector(
        names=NamePatterns(body.names),
        state=body.state,
        cordoned=body.cordoned,
        labels=read_label_query(body.label, "body.select.label"),
    )
    for name in selector.names.names:
        principal.host(context.fleet, name)

    def is_meant(name: str) -> bool:
        host = context.fleet.hosts.get(name)
        return host is not None and selector.matches(context.fleet, host)

    return await _select(context.fleet.hosts, is_meant, "host")


def _refuse_unrestricted(body: ApiBody, nothing: ApiBody, what: str) -> None:
    if body == nothing:
        raise InvalidRequest(
            FieldError("body.select", f"selects no {what}; give names, or all: true for all of them")
        )


async def _select(known: Iterable[str], is_meant: Callable[[str], bool], kind: str) -> list[str]:
    found: list[str] = []
    for checked, name in enumerate(list(known)):
        if checked % _CHECKED == _CHECKED - 1:
            await asyncio.sleep(0)  # VMs are answered in between
        if is_meant(name):
            found.append(name)
    if not found:
        raise Unknown(f"no {kind} matches; see which there are: forewarn {kind.lower()} list")
    if len(found) > MOST_AT_ONCE:
        raise Refused(
            f"{len(found)} {kind}s match, and one request operates on {MOST_AT_ONCE} at most; select fewer, "
            "such as one group or one host at a time"
        )
    return sorted(found)
