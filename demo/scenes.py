"""The story of the demo: six things happen to real guests, and each claim about them is checked as it is made."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, Protocol

from demo.cloud import SPOT, Cloud
from demo.guest_observer import HOSTS, GuestObservations
from demo.pings import Pings
from forewarn.audit.timeline import Timeline
from forewarn.control.bodies import HostOperationBody, RolloutBody, RolloutTermsBody, VmOperationBody
from forewarn.control.views import AnnouncementView
from forewarn.core.rollouts.model import RolloutOperation

FREEZE = 5
"""Seconds that one guest is frozen."""
MAINTENANCE = 3
"""Seconds that each is, for its host's maintenance."""
_SHORT = 0.5
_LONG = 5.0
"""Seconds by which a measured time may be below and above what was announced, on a machine that does much else."""
_SILENCE = 10.0
"""Seconds for which a guest that moves may not answer, on such a machine."""


class ClaimFailed(Exception):
    """A claim of the demo does not hold."""


class SceneView(Protocol):
    """Whoever shows the story."""

    def begin_scene(self, number: int, count: int, title: str, text: str) -> None:
        """Tell what comes now."""

    def tell_claim(self, text: str, *, holds: bool) -> None:
        """Tell what was claimed, and whether it holds."""

    def pause(self) -> None:
        """Give people time to read."""


class Scene(NamedTuple):
    """One thing that happens."""

    title: str
    text: str
    play: Callable[[], None]


class DemoRun:
    """The scenes, in order, in one cloud."""

    def __init__(self, cloud: Cloud, narrator: SceneView) -> None:
        self.claims = 0
        self._cloud = cloud
        self._narrator = narrator
        self._scenes = (
            Scene("Restart web-0", "It reads of it, says that it is ready, and is rebooted.", self._restart),
            Scene(f"Freeze web-1 for {FREEZE} s", "It stands still, and its clock will show it.", self._freeze),
            Scene("Redeploy web-2", "It moves to another host while it runs.", self._move),
            Scene("Maintain both hosts", f"Each guest stands still for {MAINTENANCE} s, in turn.", self._maintain),
            Scene(f"Evict {SPOT}", "It approves nothing any more; its notice passes.", self._evict),
            Scene(
                "Reboot both hosts", "A rollout empties each in turn; its guests move, and run on.", self._roll_out
            ),
        )

    def go(self) -> None:
        """Play all of it; raise Broken at the first claim that does not hold."""
        for number, scene in enumerate(self._scenes, start=1):
            self._narrator.begin_scene(number, len(self._scenes), scene.title, scene.text)
            scene.play()
            self._narrator.pause()

    def _restart(self) -> None:
        guest = self._cloud.guest("web-0")
        before = {each.name: each.boot for each in self._cloud.guests}
        self._claim_warned(guest, self._operate("web-0", "restart"))
        self._cloud.wait_for("web-0 to boot again", lambda: guest.boot != before["web-0"])
        self._claim(
            f"boot id changed {_short(before['web-0'])} → {_short(guest.boot)}: it was really rebooted",
            len(guest.boots) == 2,
            f"web-0 was to boot once more, and has booted {len(guest.boots) - 1} times",
        )
        others = [each for each in self._cloud.guests if each is not guest]
        self._claim_boots_stayed(others, before)

    def _freeze(self) -> None:
        guest = self._cloud.guest("web-1")
        before = {guest.name: guest.boot}
        began = self._steady(guest)
        self._claim_warned(guest, self._operate(guest.name, "freeze", FREEZE))
        self._claim_gap(began, FREEZE, guest)
        self._claim_boots_stayed([guest], before)

    def _move(self) -> None:
        guest = self._cloud.guest("web-2")
        before, host = {guest.name: guest.boot}, guest.host
        began = self._steady(guest)
        self._claim_warned(guest, self._operate(guest.name, "redeploy"))
        self._settle(guest)
        self._claim(
            f"it runs on {guest.host} now, not on {host}",
            guest.host != host and guest.state == "running",
            f"web-2 was to move away from {host}, and is {guest.state} on {guest.host}",
        )
        self._claim_boots_stayed([guest], before)
        still = sum(end - start for start, end in guest.pauses if start > began)
        self._claim(f"it stood still for {still:.2f} s only", still < _LONG, f"web-2 stood still for {still:.2f} s")

    def _maintain(self) -> None:
        cloud = self._cloud
        before = {guest.name: guest.boot for guest in cloud.guests}
        began = self._steady(*cloud.guests)
        body = HostOperationBody(operation="freeze", duration=MAINTENANCE)
        result = [announced for host in HOSTS for announced in cloud.client.operate_host(host, body).announcements]
        self._claim(
            "one event for each update domain",
            len(result) == len(cloud.guests),
            f"{len(result)} events were announced for {len(cloud.guests)} update domains",
        )
        for announced in result:
            self._completed(announced.event.id)
        self._claim_gap(began, MAINTENANCE, *cloud.guests)
        pauses = sorted((*pause, guest.name) for guest in cloud.guests for pause in guest.pauses if pause[0] > began)
        clash = next((f"{one} and {two}" for (_, end, one), (start, _, two) in pairwise(pauses) if start < end), "")
        self._claim(
            f"never two update domains at once: {', then '.join(name for _, _, name in pauses)}",
            len(pauses) == len(cloud.guests) and not clash,
            f"{clash} stood still at once"
            if clash
            else f"QEMU tells of {len(pauses)} pauses of {len(cloud.guests)} guests",
        )
        self._claim_boots_stayed(cloud.guests, before)

    def _evict(self) -> None:
        guest = self._cloud.guest(SPOT)
        others = [each for each in self._cloud.guests if each is not guest]
        before = {each.name: each.boot for each in others}
        self._cloud.hold_back(SPOT)
        self._cloud.let_end(SPOT)
        story = self._completed(self._operate(SPOT, "evict").event.id)
        read_at = guest.read.get(story.id)
        started = next(step.at.timestamp() for step in story.steps if step.what == "Started")
        self._claim(
            f"it was warned {started - (read_at or started):.1f} s before, and nobody approved",
            read_at is not None and read_at < started and not any(step.what == "approved" for step in story.steps),
            f"{SPOT} was not warned before it was evicted",
        )
        self._cloud.wait_for(f"the machine of {SPOT} to end", lambda: guest.state == "ended", 10)
        self._claim("its machine is gone", self._cloud.client.vm(SPOT).deallocated, f"{SPOT} is not deallocated")
        self._settle(*others)
        self._claim_boots_stayed(others, before)

    def _roll_out(self) -> None:
        cloud = self._cloud
        guests = [guest for guest in cloud.guests if guest.name != SPOT]
        before = {guest.name: guest.boot for guest in guests}
        earlier = self._announced()
        self._settle(*guests)
        with Pings(cloud.site, guests) as pings:
            terms = RolloutTermsBody(operation=RolloutOperation.COMMAND, all_hosts=True, command="reboot")
            cloud.client.start_rollout(RolloutBody(name="kernel", terms=terms))
            rollout = cloud.rolled_out("kernel")
            self._settle(*guests)
        self._claim(
            f"all {rollout.hosts} hosts are done, one after the other",
            rollout.state == "completed" and rollout.done == rollout.hosts == len(HOSTS) == rollout.wave,
            f"the rollout is {rollout.state} with {rollout.done} of {rollout.hosts} hosts done: {rollout.reason}",
        )
        moves = [self._completed(event) for event in sorted(self._announced() - earlier)]
        self._claim(
            f"{len(moves)} moves, and each guest approved its own",
            len(moves) > len(HOSTS) and all(_is_approved(story) for story in moves),
            f"of {len(moves)} moves, {sum(map(_is_approved, moves))} were approved by their guests",
        )
        for host in HOSTS:
            self._claim_rebooted(host)
        for guest in guests:
            self._claim_reachable(guest, pings.silence(guest.name))
        self._claim_boots_stayed(guests, before)

    def _announced(self) -> set[str]:
        return {line.event for line in self._cloud.client.history() if line.fact == "announced"}

    def _operate(self, vm: str, operation: str, duration: int | None = None) -> AnnouncementView:
        body = VmOperationBody(operation=operation, duration=duration)
        (announced,) = self._cloud.client.operate_vm(vm, body).announcements
        return announced

    def _completed(self, event: str) -> Timeline:
        story = self._cloud.ended(event)
        if story.status != "Completed":
            raise ClaimFailed(
                f"the {story.type} of {', '.join(story.resources)} ended {story.status}: {_last(story)}"
            )
        return story

    def _steady(self, *guests: GuestObservations) -> float:
        """Hear the guests' clocks a few times; return when that was so."""
        self._settle(*guests)
        return time.time()

    def _settle(self, *guests: GuestObservations) -> None:
        since = time.time()
        for guest in guests:
            self._cloud.wait_for(f"{guest.name} to speak", lambda guest=guest: guest.samples_since(since) >= 3)  # type: ignore[misc]

    def _claim_warned(self, guest: GuestObservations, announced: AnnouncementView) -> None:
        """Claim that the guest read of the event, approved it, and that this began it before its time."""
        story = self._completed(announced.event.id)
        self._cloud.wait_for(f"{guest.name} to read of its {story.type}", lambda: story.id in guest.read, 10)
        read_after = guest.read[story.id] - story.announced_at.timestamp()
        began_after = story.seconds["until_started"]
        self._claim(f"{guest.name} read of it at 169.254.169.254 after {read_after:.1f} s")
        because = next(step.detail for step in story.steps if step.what == "Started")
        not_before = announced.event.not_before or story.announced_at
        notice = int((not_before - story.announced_at).total_seconds())
        self._claim(
            f"it approved, and that began it after {began_after:.1f} s of {notice} s of notice",
            because == f"approved by {guest.name}",
            f"the {story.type} of {guest.name} began otherwise: {because}",
        )

    def _claim_gap(self, began: float, seconds: int, *guests: GuestObservations) -> None:
        self._settle(*guests)
        for guest in guests:
            gap = guest.behind(began)
            self._claim(
                f"the clock of {guest.name} shows a gap of {gap:.1f} s",
                seconds - _SHORT < gap < seconds + _LONG,
                f"the clock of {guest.name} shows a gap of {gap:.1f} s, where {seconds} s were announced",
            )

    def _claim_rebooted(self, host: str) -> None:
        ended = self._cloud.reboots(host)
        self._claim(
            f"{host} was rebooted once, and no guest was on it",
            ended == [0],
            f"{host} was rebooted {len(ended)} times, with {sum(ended)} guests on it",
        )

    def _claim_reachable(self, guest: GuestObservations, silence: float) -> None:
        self._claim(
            f"{guest.name} answered pings all the time, after {silence:.1f} s at the latest",
            silence < _SILENCE,
            f"{guest.name} did not answer pings for {silence:.1f} s",
        )

    def _claim_boots_stayed(self, guests: list[GuestObservations], before: dict[str, str]) -> None:
        changed = [guest for guest in guests if guest.boot != before[guest.name]]
        kept = ", ".join(f"{guest.name} {_short(guest.boot)}" for guest in guests)
        self._claim(
            f"boot id{'s' * (len(guests) > 1)} stayed: {kept}",
            not changed,
            f"{' and '.join(guest.name for guest in changed)} booted anew, which nobody asked for",
        )

    def _claim(self, text: str, holds: bool = True, otherwise: str = "") -> None:  # noqa: FBT001, FBT002 a sentence
        self.claims += holds
        self._narrator.tell_claim(text if holds else otherwise, holds=holds)
        if not holds:
            raise ClaimFailed(otherwise)


def _is_approved(story: Timeline) -> bool:
    """Return whether the guest of an event approved it, and that began it."""
    began = next(step.detail for step in story.steps if step.what == "Started")
    return began == f"approved by {story.resources[0]}"


def _last(story: Timeline) -> str:
    return story.steps[-1].detail


def _short(boot: str) -> str:
    return boot[:4]
