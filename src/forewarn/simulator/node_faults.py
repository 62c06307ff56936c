"""What a plan does to several nodes, to the database that they share, and to what they say to each other."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from forewarn.config.settings import Settings
from forewarn.simulator.actions import cluster_faults
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.database import DatabaseFault
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.network import Network
from forewarn.simulator.environment.nodes import LONGEST_ELECTION, Nodes, SimulatedNode
from forewarn.simulator.plan import Plan
from forewarn.simulator.shown_state import VERSIONS, read_document

_REMIND = 10.0
"""Seconds after which a fault that lasts is told of again."""
_CATCH_UP = 10.0
"""Seconds in which every node holds everything, without faults."""


class NodeFaults:
    """The nodes of a plan, and what happens to them."""

    def __init__(
        self,
        plan: Plan,
        loop: SimulatedLoop,
        network: Network,
        random: Random,
        on_fault: Callable[..., None],
    ) -> None:
        """``on_fault`` is told of each fault, and of the node that it happens to."""
        self._plan = plan
        self._loop = loop
        self._network = network
        self._on_fault = on_fault
        self.nodes = Nodes(loop, network, random)
        self.nodes.on_fault = self.nodes.database.on_fault = on_fault
        self._is_over = False
        self._misled: dict[SimulatedProcess, SimulatedNode] = {}
        """Nodes that held entries which a standby did not have, by their processes then."""
        self._wrong: list[str] = []

    @property
    def wrong(self) -> list[str]:
        return [*self._wrong, *self.nodes.wrong, *self.nodes.database.wrong]

    def make(
        self, directory: Path, settings: Settings, parts: tuple[Any, ...], more: tuple[Any, ...]
    ) -> Sequence[SimulatedNode]:
        """Make the nodes, each with a clock and a directory of its own; drivers that fence share their records."""
        for number in range(1, self._plan.nodes + 1):
            name = f"n{number}"
            own = directory / name
            own.mkdir()
            node = SimulatedNode(
                name,
                number,
                self.nodes.database,
                self._loop,
                self._network,
                SimulatedClock(self._loop),
                *parts,
                lambda number=number: self.nodes.all[number - 1].make_journal(),
                replace(settings, data=own, node=name),
                *more,
            )
            if self._plan.driver in ("machines", "immediate"):
                node.driver_directory = directory / "driver"
            self.nodes.add(node)
        return self.nodes.all

    async def begin(self) -> None:
        """Wait until a node leads, and look from then on whether one does."""
        self.nodes.watch()
        while not any(node.is_leading for node in self.nodes.all):  # noqa: ASYNC110 - time is simulated
            await asyncio.sleep(0.1)

    def do(self, action: PlannedAction) -> bool:
        """Do what an action says; return whether it is about nodes."""
        nodes, database, network = self.nodes, self.nodes.database, self._network
        match action:
            case cluster_faults.KillNode(node=name, callbacks=callbacks):
                if (process := nodes.named(name).process) is not None:
                    process.kill_after = callbacks
            case cluster_faults.RestartNode(node=name):
                nodes.named(name).stop()
            case cluster_faults.PauseNode(node=name, seconds=seconds):
                node = nodes.named(name)
                self._for(seconds, "paused", node, lambda on: node.pause() if on else node.resume())
            case cluster_faults.CutNodeOff(node=name, seconds=seconds):
                node = nodes.named(name)
                cut_off = database.cut_off
                change = lambda on: (cut_off.add if on else cut_off.discard)(node.name)  # noqa: E731
                self._for(seconds, "cut off from the database", node, change)
            case cluster_faults.CutNodes(node=name, other=other, seconds=seconds):
                one, two = nodes.named(name), nodes.named(other)
                self._for(seconds, f"cut off from {other}", one, lambda on: nodes.cut(one, two, on=on))
            case cluster_faults.SkewNode(node=name, seconds=seconds):
                nodes.named(name).clock.step(timedelta(seconds=seconds))
                self._on_fault("clock wrong", nodes.named(name).name)
            case cluster_faults.DisturbPeers(fault="lost", seconds=seconds):
                self._for(seconds, "messages lost", None, lambda on: setattr(network, "peer_loses", 0.3 * on))
            case cluster_faults.DisturbPeers(fault="delayed", seconds=seconds):
                self._for(
                    seconds, "messages delayed", None, lambda on: setattr(network, "peer_delay", 3.0 if on else 0.002)
                )
            case cluster_faults.DisturbPeers(fault="repeated", seconds=seconds):
                self._for(seconds, "", None, lambda on: setattr(nodes, "repeats", 0.5 * on))
            case cluster_faults.DisturbPeers():
                self._on_fault("connections broken")
                network.break_between_nodes()
            case cluster_faults.StopDatabase(seconds=seconds):
                self._for(seconds, "database down", None, lambda on: setattr(database, "is_down", on))
            case cluster_faults.FailOver(seconds=seconds, entries=entries):
                self._for(seconds, "database down", None, lambda on: self._fail_over(entries, on=on))
            case cluster_faults.FailDatabase(count=count, fault=fault):
                database.next_faults += [DatabaseFault(fault)] * count
            case cluster_faults.LoseHeartbeats(count=count):
                database.lost_heartbeats += count
            case cluster_faults.DelayHeartbeats(delay=delay, seconds=seconds):
                self._for(seconds, "", None, lambda on: setattr(database, "latency", delay * on))
            case cluster_faults.LoseDatabaseNotifications(seconds=seconds):
                self._for(seconds, "", None, lambda on: setattr(database, "is_silent", on))
            case _:
                return False
        return True

    def _fail_over(self, entries: int, *, on: bool) -> None:
        database = self.nodes.database
        database.is_down = on
        if not on and not self._is_over:
            database.fail_over(entries)
            if database.lost:
                self._on_fault("entries lost")
            for node in self.nodes.all:
                if node.assembly and node.process and node.assembly.node.replica.revision > database.revision:
                    self._misled[node.process] = node

    def _for(self, seconds: float, what: str, node: SimulatedNode | None, set_: Callable[[bool], object]) -> None:
        """Let something last for a while; what is named may explain that nodes refuse something."""
        set_(True)
        self._remind(what, node.name if node else "", self._loop.time() + seconds)

        def end() -> None:
            if not self._is_over:
                set_(False)
                if what:
                    self._on_fault(f"no longer {what}", node.name if node else "")

        self._loop.call_later(seconds, end)

    def _remind(self, what: str, node: str, until: float) -> None:
        if what and self._loop.time() < until and not self._is_over:
            self._on_fault(what, node)
            self._loop.call_later(_REMIND, self._remind, what, node, until)

    def mend(self) -> None:
        """Stop all faults."""
        self._is_over = True
        self.nodes.mend()
        self._on_fault("mended", self.nodes.all[0].name)

    async def compare_documents(self) -> None:
        """Have every VM ask every node in every api-version: the answers are the same, byte for byte."""
        await asyncio.sleep(_CATCH_UP + LONGEST_ELECTION)
        nodes = self.nodes.all
        for node in nodes:
            if not node.is_serving:
                self._wrong.append(f"node {node.name} does not serve at the end")
            elif node.current_until is not None:
                self._wrong.append(f"node {node.name} does not hold everything at the end")
        for process, node in self._misled.items():
            if process is node.process and node.assembly and "diverged" not in node.assembly.node.warnings:
                self._wrong.append(f"node {node.name} held entries that the database lost, and does not report it")
            elif process is node.process:
                self._on_fault("journal loaded again")
        leading = [node.name for node in nodes if node.is_leading]
        if len(leading) != 1:
            self._wrong.append(f"the nodes that lead at the end are: {', '.join(leading) or 'none'}")
        for vm in self._plan.vms:
            for version in VERSIONS:
                shown = {
                    node.name: await read_document(self._loop, vm.address, node.address, version)
                    for node in nodes
                    if node.is_serving
                }
                if len(set(shown.values())) > 1:
                    said = "; ".join(f"{name}: {answer!r}" for name, answer in shown.items())
                    self._wrong.append(f"nodes show {vm.name} different documents of {version}: {said}"[:600])
