"""Options by which commands select VMs and hosts, and set labels."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar, Unpack

import click

from forewarn.cli.output import wide_option
from forewarn.core.model import HostState
from forewarn.core.selectors import VmState, is_glob

if TYPE_CHECKING:
    from forewarn.control.bodies import HostSelectorBody, VmSelectorBody

_Command = TypeVar("_Command", bound=Callable[..., object])
_Option = Callable[[_Command], _Command]


class _HasLabels(Protocol):
    @property
    def labels(self) -> dict[str, str]: ...


_Labelled = TypeVar("_Labelled", bound=_HasLabels)


class VmSelection(TypedDict):
    """What the options for VMs give."""

    names: tuple[str, ...]
    group: str | None
    host: str | None
    state: str | None
    spot: bool | None
    label: str | None


class HostSelection(TypedDict):
    """What the options for hosts give."""

    names: tuple[str, ...]
    state: str | None
    cordoned: bool | None
    label: str | None


def _with(command: _Command, *options: _Option[_Command]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def _label_selector() -> _Option[_Command]:
    help_text = (
        "Only with such labels: 'rack=r1', 'version<1.4', 'rack in (r1,r2)', '!rack'; several joined by commas."
    )
    return click.option("--label", metavar="SELECTOR", help=help_text)


def vm_selector_options(command: _Command) -> _Command:
    return _with(
        command,
        click.argument("names", metavar="[NAME|GLOB]...", nargs=-1),
        click.option("--group", metavar="NAME", help="Only VMs of this group."),
        click.option("--host", metavar="NAME", help="Only VMs on this host."),
        click.option(
            "--state", type=click.Choice([state.value for state in VmState]), help="Only VMs in this state."
        ),
        click.option("--spot/--no-spot", default=None, help="Only spot VMs, or only others."),
        _label_selector(),
    )


def vm_target_options(command: _Command) -> _Command:
    """Add the options by which an operation selects VMs; nothing given selects none."""
    help_text = "All VMs."
    return vm_selector_options(click.option("--all", "all_", is_flag=True, help=help_text)(wide_option(command)))


def host_target_options(command: _Command) -> _Command:
    """Add the options by which an operation selects hosts; nothing given selects none."""
    help_text = "All hosts."
    return host_selector_options(click.option("--all", "all_", is_flag=True, help=help_text)(wide_option(command)))


def named_options(command: _Command) -> _Command:
    """Add the options by which a command that sets labels or names a host selects; nothing given selects none."""
    help_text = "Only with such labels: 'rack=r1', 'version<1.4', 'rack in (r1,r2)', '!rack'."
    return _with(
        command,
        click.argument("names", metavar="[NAME|GLOB]...", nargs=-1),
        click.option("--selector", metavar="SELECTOR", help=help_text),
        click.option("--all", "all_", is_flag=True, help="All of them."),
        wide_option,
    )


def selection_of(names: tuple[str, ...], selector: str | None) -> VmSelection:
    return VmSelection(names=names, group=None, host=None, state=None, spot=None, label=selector)


def single_name(names: tuple[str, ...], **others: object) -> str:
    """Return the name, if nothing but one name is given, and no glob; else an empty text."""
    if len(names) != 1 or is_glob(names[0]) or any(other not in (None, False) for other in others.values()):
        return ""
    return names[0]


def vm_selector_body(*, all_: bool, **selected: Unpack[VmSelection]) -> "VmSelectorBody":
    from forewarn.control.bodies import VmSelectorBody

    _refuse_unrestricted(selected, "VMs", is_all=all_)
    state = VmState(selected["state"]) if selected["state"] else None
    return VmSelectorBody(
        names=selected["names"],
        group=selected["group"],
        host=selected["host"],
        state=state,
        spot=selected["spot"],
        label=selected["label"],
        all=all_,
    )


def host_selector_body(*, all_: bool, **selected: Unpack[HostSelection]) -> "HostSelectorBody":
    from forewarn.control.bodies import HostSelectorBody

    _refuse_unrestricted(selected, "hosts", is_all=all_)
    state = HostState(selected["state"]) if selected["state"] else None
    return HostSelectorBody(
        names=selected["names"], state=state, cordoned=selected["cordoned"], label=selected["label"], all=all_
    )


def _refuse_unrestricted(selected: Mapping[str, object], what: str, *, is_all: bool) -> None:
    if not is_all and all(value in (None, ()) for value in selected.values()):
        raise click.UsageError(f"say which {what}: names, globs such as 'web-*', an option, or --all")


def host_selector_options(command: _Command) -> _Command:
    return _with(
        command,
        click.argument("names", metavar="[NAME|GLOB]...", nargs=-1),
        click.option(
            "--state", type=click.Choice([state.value for state in HostState]), help="Only hosts in this state."
        ),
        click.option("--cordoned/--not-cordoned", default=None, help="Only cordoned hosts, or only others."),
        _label_selector(),
    )


def vm_filters(
    *,
    names: tuple[str, ...],
    group: str | None,
    host: str | None,
    state: str | None,
    spot: bool | None,
    label: str | None,
) -> dict[str, object]:
    """Return the filters of the list of VMs."""
    return _given(name=",".join(names) or None, group=group, host=host, state=state, spot=spot, label=label)


def host_filters(
    *, names: tuple[str, ...], state: str | None, cordoned: bool | None, label: str | None
) -> dict[str, object]:
    """Return the filters of the list of hosts."""
    return _given(name=",".join(names) or None, state=state, cordoned=cordoned, label=label)


def _given(**filters: object) -> dict[str, object]:
    return {key: value for key, value in filters.items() if value is not None}


def label_options(command: _Command) -> _Command:
    return _with(
        command,
        click.option(
            "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Set a label; may be given again."
        ),
        click.option("--unlabel", multiple=True, metavar="KEY", help="Take a label away; may be given again."),
    )


show_labels_option = click.option("--show-labels", is_flag=True, help="Print a column with the labels.")


def with_labels(
    headers: tuple[str, ...], row: Callable[[_Labelled], tuple[str, ...]], show: bool
) -> tuple[tuple[str, ...], Callable[[_Labelled], tuple[str, ...]]]:
    """Return the columns of a list, with the labels as its last one if they are to be shown."""
    if not show:
        return headers, row
    return (*headers, "LABELS"), lambda each: (*row(each), format_labels(each.labels) or "-")


def read_label_changes(labels: Iterable[str], unlabel: Iterable[str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(unlabel)
    for pair in labels:
        key, value = read_pair("--label", pair)
        if key in changes:
            raise click.UsageError(f"label {key!r} is given twice")
        changes[key] = value
    return changes


def read_pair(option: str, given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise click.UsageError(f"{option} {given!r} is not of the form KEY=VALUE")
    return key, value


def format_labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())
