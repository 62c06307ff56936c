"""``forewarn rollout``: maintain many hosts in waves, and see how far that is."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.confirmation import confirm, yes_option
from forewarn.cli.control_commands import connected
from forewarn.cli.output import print_json, print_list, wide_option
from forewarn.cli.rollout_output import is_over, print_plan, print_rollout
from forewarn.cli.rollout_terms import edit_options, read_edit, read_terms, terms_options
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.times import relative
from forewarn.cli.watching import watch, watch_option

if TYPE_CHECKING:
    from forewarn.control.bodies import RolloutBody
    from forewarn.control.client import ControlClient
    from forewarn.control.rollout_views import RolloutDetail, RolloutView


@click.group(cls=ControlCommandGroup)
def rollout() -> None:
    """Maintain many hosts in waves.

    A rollout applies one operation to many hosts. Its events are ordinary ones: they are announced, VMs may
    approve them, and VMs of a group take turns. The next wave begins when the hosts of the last one have ended.
    """


@rollout.command
@click.argument("name")
@terms_options
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Save the plan, for 'start --plan'.")
@wide_option
@connected
def plan(client: "ControlClient", name: str, out: Path | None, as_json: bool, **given: object) -> None:
    """Show what a rollout would do.

    The plan has the waves, when each would end, and everything that cannot be done.
    """
    import msgspec

    from forewarn.control.bodies import RolloutBody
    from forewarn.core.errors import Refused

    terms = read_terms(given)
    if terms.gate or terms.alerts:
        click.echo("asks the gate and the alerts first", err=True)
    found = client.plan_rollout(RolloutBody(name=name, terms=terms))
    if out and not found.problems:
        _save(out, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    if as_json:
        print_json(found)
    else:
        print_plan(found, datetime.now(UTC), saved=str(out) if out and not found.problems else "")
    if found.problems:
        raise Refused(f"rollout {name} cannot be carried out; see the problems above")


def _save(out: Path, plan: bytes) -> None:
    from forewarn.core.errors import BadInput

    try:
        out.write_bytes(plan)
    except OSError as error:
        raise BadInput(
            f"{out} cannot be written: {error.strerror or error}; name a file in a directory of yours"
        ) from None


@rollout.command
@click.argument("name")
@click.option(
    "--plan", "saved", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A plan saved with --out."
)
@terms_options
@connected
def start(client: "ControlClient", name: str, saved: Path | None, as_json: bool, **given: object) -> None:
    """Start a rollout.

    What cannot be done is refused before anything is announced. With --plan, it does what was planned, and is refused
    if the fleet has changed so that the waves would be others.
    """
    from forewarn.control.bodies import RolloutBody

    body = _saved_body(name, saved, given) if saved else RolloutBody(name=name, terms=read_terms(given))
    started = client.start_rollout(body)
    _print(started, as_json=as_json)


def _saved_body(name: str, saved: Path, given: dict[str, object]) -> "RolloutBody":
    import msgspec

    from forewarn.control.bodies import RolloutBody, RolloutTermsBody
    from forewarn.control.rollout_views import RolloutPlanView
    from forewarn.core.errors import BadInput

    if any(value not in (None, (), False) for value in given.values()):
        raise click.UsageError("--plan holds everything that the rollout is to do; leave the other options out")
    try:
        found = msgspec.json.decode(saved.read_bytes(), type=RolloutPlanView)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise BadInput(f"{saved} is not a plan saved by 'forewarn rollout plan --out': {error}") from None
    terms = RolloutTermsBody(**msgspec.structs.asdict(found.terms))
    return RolloutBody(name=name, terms=terms, planned=tuple(wave.hosts for wave in found.waves))


@rollout.command("list")
@click.option("--all", "show_all", is_flag=True, help="Show ended rollouts too, before the others.")
@watch_option
@wide_option
@connected
def list_rollouts(client: "ControlClient", show_all: bool, is_watching: bool, as_json: bool) -> None:
    """List rollouts."""
    headers = ("ROLLOUT", "OPERATION", "STATE", "WAVE", "HOSTS", "DONE", "FAILED", "STARTED", "ENDS", "WAITS FOR")
    empty = "no rollouts" if show_all else "no rollout is under way"

    def show_rollouts() -> None:
        print_list(client.rollouts(finished=100 if show_all else 0), headers, _row, empty, as_json=as_json)

    watch(show_rollouts, is_watching=is_watching)


def _row(each: "RolloutView") -> tuple[str, ...]:
    counts = str(each.hosts), str(each.done), str(each.failed or "-")
    now = datetime.now(UTC)
    ends = each.ended_at or each.predicted_finish or each.begins_at
    times = relative(each.started_at, now), relative(ends, now) if ends else "-"
    return each.name, each.operation, each.state, str(each.wave), *counts, *times, each.blocked or "-"


@rollout.command
@click.argument("name")
@watch_option
@connected
def show(client: "ControlClient", name: str, is_watching: bool, as_json: bool) -> None:
    """Show how far a rollout is.

    Also what it waits for; a rollout that has ended is shown, too. With --watch it is shown until it has ended.
    """

    def show_progress() -> bool:
        found = client.rollout(name)
        _print(found, as_json=as_json)
        return is_over(found)

    watch(show_progress, is_watching=is_watching)


@rollout.command
@click.argument("name")
@click.option("--withdraw", is_flag=True, help="Withdraw what is Scheduled; it is announced anew after the pause.")
@yes_option
@connected
def pause(client: "ControlClient", name: str, withdraw: bool, as_json: bool) -> None:
    """Announce nothing more.

    What is Scheduled stays and happens, unless --withdraw. Started events finish.
    """
    from forewarn.control.bodies import PauseRolloutBody

    if withdraw:
        confirm(f"withdraw what rollout {name} has scheduled")
    _print(client.steer_rollout(name, "pause", PauseRolloutBody(withdraw=withdraw)), as_json=as_json)


@rollout.command
@click.argument("name")
@connected
def resume(client: "ControlClient", name: str, as_json: bool) -> None:
    """Continue a paused rollout where it stopped."""
    _print(client.steer_rollout(name, "resume"), as_json=as_json)


@rollout.command
@click.argument("name")
@yes_option
@connected
def cancel(client: "ControlClient", name: str, as_json: bool) -> None:
    """Withdraw what is Scheduled, and end the rollout.

    Started events finish first.
    """
    confirm(f"cancel rollout {name}")
    _print(client.steer_rollout(name, "cancel"), as_json=as_json)


@rollout.command
@click.argument("name")
@edit_options
@connected
def edit(client: "ControlClient", name: str, as_json: bool, **given: object) -> None:
    """Change a rollout from its next wave on.

    Its operation and hosts stay.
    """
    changed = read_edit(given, lambda: client.rollout(name).terms.gate)
    _print(client.edit_rollout(name, changed), as_json=as_json)


@rollout.command
@click.argument("name")
@click.argument("hosts", nargs=-1)
@connected
def retry(client: "ControlClient", name: str, hosts: tuple[str, ...], as_json: bool) -> None:
    """Let failed hosts wait for a wave again: HOSTS, or all that failed.

    A paused rollout stays paused; 'forewarn rollout resume NAME' continues it.
    """
    from forewarn.control.bodies import RetryHostsBody

    _print(client.steer_rollout(name, "retry", RetryHostsBody(hosts=hosts)), as_json=as_json)


@rollout.command
@click.argument("name")
@click.argument("host")
@connected
def skip(client: "ControlClient", name: str, host: str, as_json: bool) -> None:
    """Leave a host out, and withdraw what is Scheduled there."""
    from forewarn.control.bodies import SkipHostBody

    _print(client.steer_rollout(name, "skip", SkipHostBody(host=host)), as_json=as_json)


def _print(found: "RolloutDetail", *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_rollout(found, datetime.now(UTC))
