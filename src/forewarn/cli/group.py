"""``forewarn group``: list, show and change groups, and scale them in."""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from forewarn.cli.confirmation import confirm, yes_option
from forewarn.cli.control_commands import connect, connected, print_choices, print_events
from forewarn.cli.dry_run import dry_run_option
from forewarn.cli.output import json_option, print_fields, print_json, print_list, print_result, wide_option
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.times import clock, relative, span
from forewarn.cli.watching import watch, watch_option
from forewarn.core.model import GroupKind
from forewarn.core.terms import MOST_VMS, TERMINATE_NOTICES

if TYPE_CHECKING:
    from forewarn.control.client import ControlClient
    from forewarn.control.views import GroupDetail, GroupView

# The marker stops click from wrapping the lines below it.
_SET_HELP = f"""Change a group's terms.

\b
approval=any|all|quorum            which VMs must approve an early start
quorum=N                           how many VMs must approve, for quorum
approve_user_reboot=true|false     approve reboots that a user asks for
approve_user_redeploy=true|false   approve redeploys that a user asks for
approve_all_down=true|false        approve while all its VMs are down
restart_after_crash=true|false     start a VM again that crashed
postpone_limit=30m                 how long its VMs may postpone an event
quiet_hours='22:00-06:00; Sat,Sun 00:00-24:00'|none
                                   when platform maintenance may not start
terminate_notice={"..".join(TERMINATE_NOTICES)}|none  notice before a scale set's VM is deleted
eviction=deallocate|delete         what an eviction leaves behind
"""

_KINDS = [kind.value for kind in GroupKind if kind is not GroupKind.STANDALONE]


@click.group(cls=ControlCommandGroup)
def group() -> None:
    """List groups, set their terms, scale them in."""


@group.command("list")
@watch_option
@wide_option
@connected
def list_groups(client: "ControlClient", is_watching: bool, as_json: bool) -> None:
    """List all groups."""
    headers = ("GROUP", "KIND", "APPROVAL", "VMS", "EVENTS", "STATE", "LAST ASKED")
    empty = "no groups yet; declare some with 'forewarn fleet apply FILE'"
    drop = ("KIND", "APPROVAL", "VMS", "EVENTS")

    def show_all() -> None:
        row = partial(_row, datetime.now(UTC))
        print_list(client.groups(), headers, row, empty, as_json=as_json, drop=drop)

    watch(show_all, is_watching=is_watching)


def _row(now: datetime, each: "GroupView") -> tuple[str, ...]:
    counts = str(each.vms or "-"), str(each.events or "-")
    return each.name, each.kind, each.approval, *counts, "on" if each.enrolled else "off", _asked(each, now) or "-"


def _asked(each: "GroupView", now: datetime) -> str:
    if not each.asked_at:
        return ""
    before = "" if each.asked_since_start else ", before the start"
    return f"{each.asked_by}, {relative(each.asked_at, now)}{before}"


@group.command
@click.argument("name")
@wide_option
@connected
def show(client: "ControlClient", name: str, as_json: bool) -> None:
    """Show a group, its terms and what is coming to it."""
    _print_detail(client.group(name), as_json=as_json)


def _print_detail(detail: "GroupDetail", *, as_json: bool) -> None:
    if as_json:
        print_json(detail)
        return
    now = datetime.now(UTC)
    since = f"on since {clock(detail.enrolled_at, now)}" if detail.enrolled_at else "off: none of its VMs asks"
    off_at = detail.switches_off_at
    print_fields(
        {
            "group": detail.name,
            "kind": detail.kind,
            "approval": detail.approval,
            "terminate notice": detail.terminate_notice or "",
            "eviction": detail.eviction,
            **_policy(detail),
            "enrolment": since,
            "last asked": _asked(detail, now),
            "switches off": f"{clock(off_at, now)}, unless one of its VMs asks before that" if off_at else "",
            "incarnation": str(detail.incarnation),
            "vms": ", ".join(detail.members),
        }
    )
    if detail.upcoming:
        click.echo()
        print_events(detail.upcoming, "", as_json=False)


def _policy(detail: "GroupDetail") -> dict[str, str]:
    """Return the group's terms that differ from the defaults."""
    from msgspec.structs import asdict

    from forewarn.core.model import Policy

    usual = asdict(Policy())
    shown = {key: value for key, value in asdict(detail.policy).items() if value != usual[key]}
    if "postpone_limit" in shown:
        shown["postpone_limit"] = span(shown["postpone_limit"])
    if "quiet_hours" in shown:
        shown["quiet_hours"] = "; ".join(shown["quiet_hours"])
    return {
        key.replace("_", " "): str(value).lower() if value is False else str(value) for key, value in shown.items()
    }


@group.command("set", help=_SET_HELP)
@click.argument("name")
@click.argument("terms", nargs=-1, required=True, metavar="KEY=VALUE...")
@wide_option
@json_option
@click.pass_context
def set_terms(context: click.Context, name: str, terms: tuple[str, ...], as_json: bool) -> None:
    from msgspec.structs import replace

    from forewarn.control.bodies import TermsBody

    given = dict(_read_term(context, term) for term in terms)
    with connect(context) as client:
        _print_detail(client.set_terms(name, replace(TermsBody(), **given)), as_json=as_json)


def _read_term(context: click.Context, term: str) -> tuple[str, object]:
    from forewarn.core.errors import nearest
    from forewarn.fleetfile import tables

    readers = {key: reader for key, reader in tables.GROUP_KEYS.items() if key not in {"name", "kind"}}
    key, equals, value = term.partition("=")
    key = key.replace("-", "_")
    if not equals:
        raise click.UsageError(f"{term!r} is not of the form KEY=VALUE", context)
    if key not in readers:
        remedy = nearest(key, readers) or f"; known are {', '.join(readers)}"
        raise click.UsageError(f"there is no key {key!r}{remedy}", context)
    if key == "terminate_notice" and value == "none":
        return key, None
    try:
        return key, readers[key](_read_value(key, value))
    except ValueError as error:
        raise click.UsageError(f"{key} {error}", context) from None


def _read_value(key: str, text: str) -> object:
    """Return the value as a fleet file would have it."""
    if key == "quiet_hours":
        return [] if text == "none" else [part.strip() for part in text.split(";")]
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and key == "quorum" else text


@group.command
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(_KINDS),
    required=True,
    help="What binds its VMs together.",
)
@click.argument("terms", nargs=-1, metavar="[KEY=VALUE]...")
@dry_run_option
@json_option
@click.pass_context
def add(context: click.Context, name: str, kind: str, terms: tuple[str, ...], as_json: bool) -> None:
    """Add a group without VMs.

    Its terms are given as for 'forewarn group set'. A standalone group comes with its VM: 'forewarn vm add NAME'.
    """
    from forewarn.control.bodies import NewGroupBody

    given = dict(_read_term(context, term) for term in terms)
    with connect(context) as client:
        client.add_group(NewGroupBody(name=name, kind=GroupKind(kind), **given))  # type: ignore[arg-type]
        print_result(client.group(name), f"group {name} was added", as_json=as_json)


@group.command
@click.argument("name")
@dry_run_option
@yes_option
@connected
def remove(client: "ControlClient", name: str, as_json: bool) -> None:
    """Take a group without VMs out of the fleet."""
    confirm(f"remove group {name}")
    client.remove_group(name)
    print_result({"removed": name}, f"group {name} was removed", as_json=as_json)


@group.command("scale-in")
@click.argument("name")
@click.option("--count", type=click.IntRange(1, MOST_VMS), required=True, metavar="N", help="How many VMs to delete.")
@dry_run_option
@yes_option
@wide_option
@connected
def scale_in(client: "ControlClient", name: str, count: int, as_json: bool) -> None:
    """Delete some VMs of a scale set.

    The other VMs stay evenly spread. Each deletion is announced with the terminate notice of the group.
    """
    from forewarn.control.bodies import ScaleInBody

    confirm(f"delete {count} of the VMs of {name}")
    result = client.scale_in(name, ScaleInBody(count=count))
    print_choices(result.announcements, "nothing was announced", as_json=as_json)
