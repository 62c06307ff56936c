"""Plays a scenario: runs each step at its time, and collects the resulting events and verdicts."""

from forewarn.core.errors import ForewarnError
from forewarn.core.model import EventStatus
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.event_log import EventLife
from forewarn.emulator.expectations import ExpectationState, Verdict, judge, judge_requests
from forewarn.emulator.scenario import Scenario, ScenarioStep
from forewarn.emulator.scenario_tables import Claim, ScenarioAction
from forewarn.emulator.verbs import Verb


class ScenarioPlayer:
    """One run of a scenario."""

    def __init__(self, emulation: Emulation, scenario: Scenario) -> None:
        self.scenario = scenario
        self._emulation = emulation
        self._lives: dict[str, list[EventLife]] = {}
        """The events by the name of the step that announced them, or by its number."""
        self._left = len(scenario.steps)
        self._failures: list[Verdict] = []
        self.began_at = emulation.clock.now()
        self.has_begun = False

    def begin(self) -> None:
        """Start the timeline: at the first request, or now if there was none."""
        clock, hurry = self._emulation.clock, self._emulation.hurry
        requests = self._emulation.requests.sent
        self.has_begun = True
        self.began_at = requests[0].at if requests else clock.now()
        self._emulation.faults.begin(self.began_at)
        for number, step in enumerate(self.scenario.steps):
            clock.call_at(self.began_at + step.at / hurry, lambda step=step, number=number: self._play(step, number))  # type: ignore[misc]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdict of each expectation, and of each step with another result than stated."""
        now, hurry = self._emulation.clock.now(), self._emulation.hurry
        judged = [
            judge_requests(each, self._emulation.requests.sent, self.began_at, now, hurry)
            if each.that is Claim.ASKED
            else judge(each, self._lives.get(each.event), now, hurry)
            for each in self.scenario.expectations
        ]
        return [*self._failures, *judged]

    @property
    def is_over(self) -> bool:
        """Whether every step is done, every event is over and every expectation decided."""
        elapsed = (self._emulation.clock.now() - self.began_at) * self._emulation.hurry
        return (
            self.has_begun
            and not self._left
            and elapsed >= self.scenario.until
            and all(life.is_over for lives in self._lives.values() for life in lives)
            and all(verdict.outcome is not ExpectationState.OPEN for verdict in self.verdicts)
        )

    def _play(self, step: ScenarioStep, number: int) -> None:
        self._emulation.spawn(self._do(step, number), f"step {step}")

    async def _do(self, step: ScenarioStep, number: int) -> None:
        name = step.name or str(number)
        try:
            self._lives[name] = await self._announced(step)
        except ForewarnError as error:
            self._lives[name] = []
            if not step.refused:
                self._failures.append(Verdict(f"step {step}", ExpectationState.MISSED, str(error)))
        else:
            if step.refused:
                self._failures.append(Verdict(f"step {step} refused", ExpectationState.MISSED, "it was not refused"))
        finally:
            self._left -= 1

    async def _announced(self, step: ScenarioStep) -> list[EventLife]:
        emulation = self._emulation
        match step.do:
            case ScenarioAction.ASK:
                await emulation.ask(step.vm)
            case ScenarioAction.APPROVE:
                for life in self._lives.get(step.event, ()):
                    if not life.is_over:
                        await emulation.approve(life.id, step.by)
            case ScenarioAction.CANCEL:
                for life in self._lives.get(step.event, ()):
                    if life.status is EventStatus.SCHEDULED:  # a VM may have approved it meanwhile
                        await emulation.cancel(life.id)
            case Verb() as verb:
                return await emulation.do(
                    verb,
                    vm=step.vm,
                    host=step.host,
                    notice=step.notice,
                    duration=step.duration,
                    description=step.description,
                )
        return []
