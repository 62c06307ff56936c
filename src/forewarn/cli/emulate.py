"""``forewarn emulate``: run the emulator, without root and without configuration."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from forewarn.cli.output import json_option, print_json_list, print_live, print_table, wide_option
from forewarn.cli.times import read_seconds
from forewarn.config.values import METADATA_PORT

if TYPE_CHECKING:
    from forewarn.cli.emulating.emulator_run import ScenarioResult
    from forewarn.emulator.scenario import Scenario
    from forewarn.emulator.setup import EmulationSetup

_Answer = TypeVar("_Answer")


@click.command
@click.argument("scenario", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the scenarios that come with Forewarn.")
@click.option(
    "--hurry",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    metavar="R",
    show_default=True,
    help="Divide every duration by R; 60 makes minutes seconds.",
)
@click.option(
    "--vm",
    "vms",
    multiple=True,
    metavar="NAME",
    help="Name a VM; may be repeated. In a scenario: other names for its VMs, in their order.",
)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", show_default=True, help="Where it listens.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=METADATA_PORT,
    metavar="N",
    show_default=True,
    help="The port of the first VM; the others have those that follow. 0 takes any that are free.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="KIND[,KEY=VALUE...]",
    help="Inject a fault: 500, or delay,seconds=2,probability=0.5,from=1m,until=5m. Repeatable.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    metavar="N",
    show_default=True,
    help="The seed of random choices: the same requests meet the same faults.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the scenario's expectations and results as JUnit XML.",
)
@click.option(
    "--patience",
    default="1m",
    metavar="DURATION",
    show_default=True,
    help="How long a scenario or a recording waits for the first request before it begins without one.",
)
@click.option("--stay", is_flag=True, help="Keep running after the scenario is over.")
@wide_option
@json_option
@click.pass_context
def emulate(
    context: click.Context,
    scenario: str | None,
    is_list: bool,
    hurry: float,
    vms: tuple[str, ...],
    host: str,
    port: int,
    faults: tuple[str, ...],
    seed: int,
    junit: Path | None,
    patience: str,
    stay: bool,
    as_json: bool,
) -> None:
    """Run the service for developers: every event type, every fault, and a clock that can be moved.

    SCENARIO is one of --list, a TOML file, or a recording of 'forewarn record', which is played again. Both begin
    with the first request and end by themselves; the exit code is 0 if everything that the scenario expects
    happened, else 1. Without a scenario, keys make events happen.

    With --json every line is a JSON object: the first has the type listening and the addresses, the last the type
    result, stopped or error.
    """
    if is_list:
        _print_list(as_json=as_json)
        return
    from forewarn.cli.emulating.output import last_line

    with last_line(as_json=as_json):
        wait = read_seconds(patience, "--patience")
        from forewarn.emulator.recording import is_recording

        if scenario and is_recording(Path(scenario)):
            _replay(Path(scenario), hurry=hurry, host=host, port=port, patience=wait, stay=stay, as_json=as_json)
            return
        played = _scenario(scenario, vms) if scenario else None
        if junit and not played:
            raise click.UsageError("--junit reports on a scenario; name one", context)
        setup = _stage(played, vms, faults)

        async def run() -> "ScenarioResult":
            from forewarn.cli.emulating.emulator_run import EmulatorRun
            from forewarn.emulator.emulation import Emulation

            emulation = Emulation(setup, hurry=hurry, host=host, port=port, seed=seed)
            return await EmulatorRun(emulation, played, patience=wait, stays=stay, as_json=as_json).run()

        result = _run(run, ends_by_itself=played is not None and not stay)
        if played is None or result is None:
            if as_json:
                from forewarn.cli.emulating.output import print_json_line

                print_json_line("stopped")
            return
        if junit:
            from forewarn.cli.emulating.output import write_junit

            write_junit(junit, played, result.verdicts, result.seconds)
        if as_json:
            from forewarn.cli.emulating.output import print_json_line

            print_json_line("result", **msgspec.structs.asdict(result), is_good=result.is_good)
        else:
            _print_result(played, result)
        context.exit(0 if result.is_good else 1)


def _scenario(name: str, vms: tuple[str, ...]) -> "Scenario":
    from forewarn.emulator.scenario import load, renamed

    return renamed(load(name), vms)


def _stage(played: "Scenario | None", vms: tuple[str, ...], faults: tuple[str, ...]) -> "EmulationSetup":
    """Return the setup of the scenario, or one of these VMs, with the faults of the flags."""
    from forewarn.cli.emulating.fault_flags import read_faults
    from forewarn.emulator.scenario import USUAL_VM
    from forewarn.emulator.setup import EmulationSetup, fleet_of

    setup = played.setup if played else EmulationSetup(fleet=fleet_of(vms or (USUAL_VM,)))
    return msgspec.structs.replace(setup, faults=(*setup.faults, *read_faults(faults, setup.fleet.vms)))


def _replay(path: Path, *, hurry: float, host: str, port: int, patience: float, stay: bool, as_json: bool) -> None:
    from forewarn.cli.emulating.output import print_json_line, print_listening
    from forewarn.clocks import SystemClock
    from forewarn.config.values import ListenAddress
    from forewarn.emulator.recording import read
    from forewarn.emulator.replay import Replay

    recording = read(path)

    async def play() -> None:
        replay = Replay(recording, SystemClock(), hurry=hurry)
        await replay.start(host, port)
        urls = {vm: f"http://{ListenAddress(host, replay.vm_ports.port_of(vm))}" for vm in replay.vms}
        if as_json:
            print_listening(urls)
        for vm, url in urls.items() if not as_json else ():
            print_live(f"{vm} asks at {url}/metadata/scheduledevents")
        impatience = asyncio.get_running_loop().call_later(patience, replay.begin)
        try:
            await replay.is_over.wait()
            text = "the recording is over" + ("; its last document stays, stop with Ctrl-C" if stay else "")
            if as_json:
                print_json_line("activity", text=text)
            else:
                print_live(text)
            if stay:
                await asyncio.Event().wait()
        finally:
            impatience.cancel()
            await replay.stop()

    with contextlib.suppress(KeyboardInterrupt):
        _run_to_the_end(play)
    if as_json:
        print_json_line("stopped")


def _run(
    run: Callable[[], "Coroutine[None, None, ScenarioResult]"], *, ends_by_itself: bool
) -> "ScenarioResult | None":
    # The output replaces the service's log.
    logger = logging.getLogger("forewarn")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return _run_to_the_end(run)
    except KeyboardInterrupt:
        if ends_by_itself:
            raise
        return None
    finally:
        logger.setLevel(level)


def _run_to_the_end(run: Callable[[], "Coroutine[None, None, _Answer]"]) -> "_Answer":
    """Run it on an event loop; SIGTERM ends it like Ctrl-C, with cleanup."""

    async def cancelable() -> "_Answer":
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio.run made it
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await run()

    try:
        return asyncio.run(cancelable())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _print_list(*, as_json: bool) -> None:
    from forewarn.emulator.scenario import load, shipped

    scenarios = [load(name) for name in shipped()]
    if as_json:
        print_json_list({"name": each.name, "title": each.title, "about": each.about} for each in scenarios)
    else:
        rows = ((each.name, each.title) for each in scenarios)
        print_table(("SCENARIO", "WHAT HAPPENS"), rows, "there are no scenarios")


def _print_result(scenario: "Scenario", result: "ScenarioResult") -> None:
    from forewarn.emulator.expectations import ExpectationState

    met = sum(verdict.outcome is ExpectationState.MET for verdict in result.verdicts)
    for verdict in result.verdicts:
        click.echo(f"{verdict.outcome:<6}  {verdict.claim}: {verdict.detail}")
    rest = "" if result.is_over else ", and it was left before its end"
    click.echo(f"{scenario.title}: {met} of {len(result.verdicts)} expectations met{rest}")
