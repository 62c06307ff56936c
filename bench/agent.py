"""The agent in a VM: what it costs while nothing happens, how soon it acts, and how fast its command line starts."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

from bench import fleets, service
from bench.agents import Bell, agent_of
from bench.figures import Figure, spread_of
from bench.machine import cores
from bench.processes import Effort, effort_of, memory_of, running, with_bytecode
from bench.rounds import say
from bench.starting import starting
from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import ControlClient

_FLEET = 1_000
_MEBIBYTE = 2**20
_WAITING = "import sys; sys.stdin.read()"
_SETTLED = 3.0
"""Seconds after which what a process does to start is done."""
_BETWEEN = 0.2
"""Seconds between two events, in which everybody comes to rest."""


def agent(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure an agent at rest and at work, and the start of ``forewarn events``."""
    core, load = cores()
    data = fleets.make_journal(directory / "data", _FLEET)
    environment = with_bytecode(directory / "bytecode")
    bell = Bell(directory / "bell")
    with service.serving(data, core) as ours:
        # The first agent compiles what the second one loads.
        with agent_of(ours, directory / "first", load, bell, environment):
            pass
        with agent_of(ours, directory / "agent", load, bell, environment) as process:
            yield from _at_rest(process.pid, directory, environment, seconds=5 if quick else 120)
            yield _reaction(data, bell, events=5 if quick else 50)
        yield from starting(ours, environment, rounds=3 if quick else 30)
    bell.close()


def _at_rest(pid: int, directory: Path, environment: Mapping[str, str], *, seconds: int) -> Iterator[Figure]:
    """Look at the agent for a while, and at two interpreters that wait for input meanwhile."""
    _, load = cores()
    waiting = [sys.executable, "-c", _WAITING]
    with (
        running(waiting, load, directory / "waiting.log", environment) as one,
        running(waiting, load, directory / "waiting-too.log", environment) as other,
    ):
        time.sleep(_SETTLED)
        memory, least = memory_of(pid), memory_of(one.pid)
        yield Figure(
            name="memory of an idle agent",
            asked="under 35 MiB resident",
            limit=35.0,
            is_at_least=False,
            measured=memory.resident / _MEBIBYTE,
            unit="MiB",
            detail=f"proportional {memory.proportional / _MEBIBYTE:.1f} MiB; an interpreter that waits for input has"
            f" {least.resident / _MEBIBYTE:.1f} MiB resident",
        )
        before = [effort_of(each) for each in (pid, one.pid, other.pid)]
        time.sleep(seconds)
        after = [effort_of(each) for each in (pid, one.pid, other.pid)]
    ours, idle, too = (late.since(early) for late, early in zip(after, before, strict=True))
    yield Figure(
        name=f"CPU of an idle agent in {seconds} s, beyond an idle interpreter's",
        asked="not distinguishable: at most one clock tick (10 ms)",
        limit=1.0,
        is_at_least=False,
        measured=float(ours.ticks - idle.ticks),
        unit="ticks",
        noise=spread_of([float(too.ticks - idle.ticks)]),
        detail=f"by the scheduler's count the agent {_describe(ours)}, the interpreter {_describe(idle)}",
    )


def _describe(effort: Effort) -> str:
    return f"ran {effort.seconds * 1e3:.2f} ms and was woken {effort.switches} times"


def _reaction(data: Path, bell: Bell, *, events: int) -> Figure:
    """Announce restarts, one after another, and wait for the handler each time; then take the restart back."""
    vm, _ = fleets.mixed(0)
    since_answered, since_sent, of_shell = [], [], []
    with ControlClient.local(data) as client:
        for number in range(events):
            say(f"event {number + 1} of {events}")
            of_shell.append(_start_of_shell(bell))
            time.sleep(_BETWEEN)
            sent = perf_counter()
            result = client.operate_vm(vm.name, VmOperationBody(operation="restart"))
            answered = perf_counter()
            bell.wait_for("do")
            rang = perf_counter()
            since_sent.append((rang - sent) * 1e3)
            since_answered.append((rang - answered) * 1e3)
            time.sleep(_BETWEEN)
            client.cancel(result.announcements[0].event.id)
            bell.wait_for("undo")
    say("")
    spread = spread_of(since_answered)
    return Figure(
        name="an event is visible, and the first handler's program runs",
        asked="under 50 ms median",
        limit=50.0,
        is_at_least=False,
        measured=spread.median,
        unit="ms",
        spread=spread,
        detail=f"{events} events, counted from the answer to the announcement; from its sending it is"
        f" {median(since_sent):.1f} ms. Starting the program, a shell, takes {median(of_shell):.1f} ms of it",
    )


def _start_of_shell(bell: Bell) -> float:
    """Start the handler's program ourselves, and return the milliseconds until it rings."""
    began = perf_counter()
    with subprocess.Popen(bell.command("alone"), stdin=subprocess.DEVNULL):
        bell.wait_for("alone")
        return (perf_counter() - began) * 1e3
