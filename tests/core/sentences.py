"""Commands read from the sentences of a transcript.

ann restarts web-0 [not before TIME] [for 9 s] [saying WORDS]      ann approves E1, E2
ann freezes host h1 ...   ann redeploys host h1 live               ann cancels E1
ann repairs host h1       ann moves web-0 to h2 [live | by driver] [not before TIME]
ann starts web-0 [by driver]   ann deallocates web-0 [by driver]   ann sets web approval=all
ann cordons host h1       ann uncordons host h1                    ann records web-0 on h2
ann drains host h1 [live] [to web-0 on h2, web-1 on h3] [leaving web-2 (WORDS)] [not before TIME]
the driver started web-0, as asked                                 the driver cannot stop web-0: WORDS
ann reclaims 2 spot VMs   ann reclaims the spot VMs of h1          ann scales pool in by 2
web-0 postpones E1 by 300 s [saying WORDS]
ann applies: host h1; group web scale-set; vm web-0 in web on h1; exact; cancel events; yes
the service starts with: host h1; group web scale-set; vm web-0 in web on h1
ann declares: host h1; group web scale-set; vm web-0 in web on h1 ud=0 fd=0; no vm web-1; cancel events
web-0 asks                web-0 approves E1                        web-0 is shown E1
the time comes            the record is kept that web-0 asked      the sweep finds web last asked TIME
the driver begins E1      the driver is done with E1 [web-0 on h2] the driver fails E1[, web-0 on h2]: WORDS
the driver sees web-0 crashed [saying WORDS]
the driver finds web-0 crashed [saying WORDS]
the driver sees web-0 moved to h2 [saying WORDS]
ann rolls out ROLLOUT: reboot hosts=h1,h2 parallel=2 windows=Sat_02:00-06:00 ...
ann edits rollout ROLLOUT: parallel=3                              rollout ROLLOUT goes on
ann pauses rollout ROLLOUT [withdrawing]                           ann resumes rollout ROLLOUT
ann cancels rollout ROLLOUT    ann retries rollout ROLLOUT [h1,h2]    ann skips h1 of rollout ROLLOUT
rollout ROLLOUT drains h1 [live]                                   rollout ROLLOUT finds wave 2 well|unwell: WORDS
the command on h1 of rollout ROLLOUT ends with 0                   h1 of rollout ROLLOUT answers with 0
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec

from forewarn.core.commands import (
    ApplyDeclaration,
    Approve,
    CancelEvent,
    ChangeFleet,
    CheckDeadlines,
    Command,
    CordonHost,
    DeallocateVm,
    DrainHost,
    Enrol,
    HostOperation,
    ImpactResult,
    MoveVm,
    OperateHost,
    OperateVm,
    Postponement,
    ReclaimSpot,
    RecordAsked,
    RecordAttempt,
    RecordFetched,
    RecordObservation,
    RepairHost,
    ReportImpact,
    ReportPowerSwitch,
    ScaleIn,
    SetGroup,
    StartVm,
    SwitchOff,
    VmOperation,
)
from forewarn.core.facts import Fetch, Mark
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    NODE,
    ApprovalRule,
    Caller,
    CallerKind,
    EventStatus,
    EvictionPolicy,
    GroupKind,
    GroupTerms,
    Host,
    Observation,
    ObservationKind,
    Policy,
    Vm,
)
from forewarn.core.placement import Capacity, DrainPlan, plan_drain
from forewarn.core.rollouts.commands import (
    AdvanceRollout,
    CancelRollout,
    DrainRolloutHost,
    EditRollout,
    HostCommandPurpose,
    PauseRollout,
    ReportHostCommand,
    ReportRolloutCheck,
    ResumeRollout,
    RetryHosts,
    SkipHost,
    StartRollout,
)
from forewarn.core.rollouts.model import RolloutTerms
from forewarn.fleetfile.diff import CurrentFleet, diff_fleet
from forewarn.fleetfile.parser import DesiredFleet
from forewarn.simulator.words import Labels, read_time

_TIME = r"(?:(?:[A-Z][a-z]{2}|\d{4}-\d\d-\d\d) )?[\d:.]+"
_NOT_BEFORE = rf"(?: not before (?P<not_before>{_TIME}))?"
_DETAILS = _NOT_BEFORE + r"(?: for (?P<duration>-?\d+) s)?(?: saying (?P<description>.*))?"

_PLAN = r"(?: to (?P<moves>\S+ on \S+(?:, \S+ on \S+)*))?(?: leaving (?P<left>.*\)))?"


class Reader:
    """Reads sentences; ids of commands are counted, so that a story is the same whenever it is told."""

    def __init__(self, fleet: Fleet, labels: Labels) -> None:
        self._fleet = fleet
        self._labels = labels
        self._count = 0

    def read(self, sentence: str, now: datetime) -> Command:
        """Return the command that the sentence gives."""
        self._count += 1
        for pattern, read in _SENTENCES:
            if match := re.fullmatch(pattern, sentence):
                return read(self, match, now)
        raise ValueError(f"nobody understands {sentence!r}; tests/core/sentences.py tells what can be said")

    @property
    def id(self) -> str:
        return str(UUID(int=self._count))

    def caller(self, name: str) -> Caller:
        return Caller(CallerKind.VM if name in self._fleet.vms else CallerKind.OPERATOR, name)

    def operate_vm(self, match: re.Match[str], now: datetime) -> Command:
        operation = VmOperation(match["verb"])
        return OperateVm(
            id=self.id, by=self.caller(match["who"]), operation=operation, vm=match["vm"], **_details(match)
        )

    def operate_host(self, match: re.Match[str], now: datetime) -> Command:
        return OperateHost(
            id=self.id,
            by=self.caller(match["who"]),
            operation=HostOperation(match["verb"]),
            host=match["host"],
            live=bool(match["live"]),
            **_details(match),
        )

    def repair_host(self, match: re.Match[str], now: datetime) -> Command:
        return RepairHost(id=self.id, by=self.caller(match["who"]), host=match["host"])

    def cordon(self, match: re.Match[str], now: datetime) -> Command:
        is_cordoned = match["un"] is None
        return CordonHost(id=self.id, by=self.caller(match["who"]), host=match["host"], is_cordoned=is_cordoned)

    def drain(self, match: re.Match[str], now: datetime) -> Command:
        """Drain a host: by a plan that is given, or by the planner's where nothing is known of capacity."""
        plan = (
            plan_drain(self._fleet, match["host"], Capacity()) if match["host"] in self._fleet.hosts else DrainPlan()
        )
        return DrainHost(
            id=self.id,
            by=self.caller(match["who"]),
            host=match["host"],
            placements=_moves(match["moves"]) or plan.placements,
            left=dict(re.findall(r"(\S+) \(([^)]*)\)", match["left"])) if match["left"] else plan.left,
            live=bool(match["live"]),
            **_details(match),
        )

    def record_move(self, match: re.Match[str], now: datetime) -> Command:
        by = self.caller(match["who"])
        return MoveVm(id=self.id, by=by, vm=match["vm"], host=match["host"], record=True)

    def report_switch(self, match: re.Match[str], now: datetime) -> Command:
        request = self._fleet.power_requests.get(match["vm"])
        return ReportPowerSwitch(
            id=self.id,
            by=NODE,
            vm=match["vm"],
            asked=request.id if request else "",
            result=ImpactResult.FAILED if match["reason"] else ImpactResult.DONE,
            detail=match["reason"] or "",
        )

    def move(self, match: re.Match[str], now: datetime) -> Command:
        return MoveVm(
            id=self.id,
            by=self.caller(match["who"]),
            vm=match["vm"],
            host=match["host"],
            can_move=match["how"] is not None,
            live=match["how"] == "live",
            **_details(match),
        )

    def start(self, match: re.Match[str], now: datetime) -> Command:
        by, by_driver = self.caller(match["who"]), bool(match["how"])
        return StartVm(id=self.id, by=by, vm=match["vm"], can_switch=by_driver)

    def deallocate(self, match: re.Match[str], now: datetime) -> Command:
        by, by_driver = self.caller(match["who"]), bool(match["how"])
        return DeallocateVm(id=self.id, by=by, vm=match["vm"], can_switch=by_driver)

    def approve(self, match: re.Match[str], now: datetime) -> Command:
        events = tuple(self._labels.id_of(label) for label in match["events"].split(", "))
        return Approve(id=self.id, by=self.caller(match["who"]), events=events)

    def postpone(self, match: re.Match[str], now: datetime) -> Command:
        event = self._labels.id_of(match["event"])
        term = Postponement(event, int(match["seconds"]), match["reason"] or "")
        return Approve(id=self.id, by=self.caller(match["who"]), postponements=(term,))

    def reclaim(self, match: re.Match[str], now: datetime) -> Command:
        count = int(match["count"]) if match["count"] else None
        return ReclaimSpot(id=self.id, by=self.caller(match["who"]), count=count, host=match["host"])

    def scale_in(self, match: re.Match[str], now: datetime) -> Command:
        return ScaleIn(id=self.id, by=self.caller(match["who"]), group=match["group"], count=int(match["count"]))

    def cancel(self, match: re.Match[str], now: datetime) -> Command:
        return CancelEvent(id=self.id, by=self.caller(match["who"]), event=self._labels.id_of(match["event"]))

    def set_group(self, match: re.Match[str], now: datetime) -> Command:
        terms = dict(word.split("=") for word in match["terms"].split())
        notice = terms.get("terminate_notice")
        policy = _policy(terms)
        return SetGroup(
            **{key: getattr(policy, key) for key in Policy.__struct_fields__ if key in terms},
            id=self.id,
            by=self.caller(match["who"]),
            group=match["group"],
            approval=ApprovalRule(terms["approval"]) if "approval" in terms else None,
            eviction=EvictionPolicy(terms["eviction"]) if "eviction" in terms else None,
            terminate_notice=msgspec.UNSET if notice is None else None if notice == "none" else int(notice),
        )

    def declare(self, match: re.Match[str], now: datetime) -> Command:
        terms = [term.strip() for term in match["terms"].split(";")]
        return ChangeFleet(
            id=self.id,
            by=self.caller(match["who"]),
            hosts=tuple(Host(name) for (name,) in _find(r"host (\S+)", terms)),
            groups=tuple(_terms(name, kind, words) for name, kind, words in _find(r"group (\S+) (\S+)(.*)", terms)),
            vms=tuple(
                _vm(name, group, host, words)
                for name, group, host, words in _find(r"vm (\S+) in (\S+)(?: on (\S+))?(.*)", terms)
            ),
            removed_hosts=tuple(name for (name,) in _find(r"no host (\S+)", terms)),
            removed_groups=tuple(name for (name,) in _find(r"no group (\S+)", terms)),
            removed_vms=tuple(name for (name,) in _find(r"no vm (\S+)", terms)),
            cancel_events="cancel events" in terms,
            seen=next((int(number) for (number,) in _find(r"having seen change (\d+)", terms)), None),
        )

    def apply(self, match: re.Match[str], now: datetime) -> Command:
        terms = [term.strip() for term in match["terms"].split(";")]
        term = DesiredFleet(
            {name: Host(name) for (name,) in _find(r"host (\S+)", terms)},
            {name: _terms(name, kind, words) for name, kind, words in _find(r"group (\S+) (\S+)(.*)", terms)},
            {
                name: _vm(name, group, host, words)
                for name, group, host, words in _find(r"vm (\S+) in (\S+)(?: on (\S+))?(.*)", terms)
            },
        )
        seen = next((int(number) for (number,) in _find(r"having seen declaration (\d+)", terms)), None)
        who = match.groupdict().get("who")
        return ApplyDeclaration(
            id=self.id,
            by=self.caller(who) if who else NODE,
            seen=self._fleet.last_applied.revision if seen is None else seen,
            digest=sha256(match["terms"].encode()).hexdigest(),
            exact="exact" in terms,
            cancel_events="cancel events" in terms,
            yes="yes" in terms,
            is_start=who is None,
            **msgspec.structs.asdict(diff_fleet(term, CurrentFleet.last_applied(self._fleet))),
        )

    def ask(self, match: re.Match[str], now: datetime) -> Command:
        vm = match["who"]
        return Enrol(id=self.id, by=self.caller(vm), group=self._fleet.vms[vm].group, vm=vm)

    def see(self, match: re.Match[str], now: datetime) -> Command:
        fetch = Fetch(self._labels.id_of(match["event"]), match["who"], now)
        return RecordFetched(id=self.id, by=NODE, fetches=(fetch,))

    def wake(self, match: re.Match[str], now: datetime) -> Command:
        due = (e for e in self._fleet.events.values() if (e.waits_until or e.not_before) <= now)
        return CheckDeadlines(
            id=self.id, by=NODE, events=tuple(e.id for e in due if e.status is EventStatus.SCHEDULED)
        )

    def record_asked(self, match: re.Match[str], now: datetime) -> Command:
        vm = match["vm"]
        return RecordAsked(id=self.id, by=NODE, marks=(Mark(self._fleet.vms[vm].group, now, vm),))

    def sweep(self, match: re.Match[str], now: datetime) -> Command:
        return SwitchOff(id=self.id, by=NODE, marks=(Mark(match["group"], read_time(match["at"]), ""),))

    def attempt(self, match: re.Match[str], now: datetime) -> Command:
        return RecordAttempt(id=self.id, by=NODE, event=self._labels.id_of(match["event"]))

    def report_done(self, match: re.Match[str], now: datetime) -> Command:
        moves = _moves(match["moves"])
        event = self._labels.id_of(match["event"])
        return ReportImpact(id=self.id, by=NODE, event=event, result=ImpactResult.DONE, hosts=moves)

    def report_failed(self, match: re.Match[str], now: datetime) -> Command:
        moves = _moves(match["moves"])
        event = self._labels.id_of(match["event"])
        return ReportImpact(
            id=self.id, by=NODE, event=event, result=ImpactResult.FAILED, detail=match["reason"], hosts=moves
        )

    def observe(self, match: re.Match[str], now: datetime) -> Command:
        seen = Observation(
            match["vm"],
            ObservationKind(match["what"]),
            now,
            match["detail"] or "",
            host=match["host"] or "",
            is_found=match["how"] == "finds",
        )
        return RecordObservation(id=self.id, by=NODE, observation=seen)

    def start_rollout(self, match: re.Match[str], now: datetime) -> Command:
        terms = _rollout_terms(f"operation={match['operation']} {match['terms']}")
        return StartRollout(
            id=self.id, by=self.caller(match["who"]), name=match["name"], terms=terms, runs_commands=True
        )

    def edit_rollout(self, match: re.Match[str], now: datetime) -> Command:
        terms = self._fleet.rollouts[match["name"]].terms
        edited = _rollout_terms(match["terms"], msgspec.to_builtins(terms))
        return EditRollout(
            id=self.id, by=self.caller(match["who"]), name=match["name"], terms=edited, runs_commands=True
        )

    def advance_rollout(self, match: re.Match[str], now: datetime) -> Command:
        return AdvanceRollout(id=self.id, by=NODE, rollout=match["name"])

    def steer_rollout(self, match: re.Match[str], now: datetime) -> Command:
        given: dict[str, Any] = {"id": self.id, "by": self.caller(match["who"]), "name": match["name"]}
        match match["verb"]:
            case "pauses":
                return PauseRollout(withdraw=bool(match["rest"]), **given)
            case "resumes":
                return ResumeRollout(**given)
            case "cancels":
                return CancelRollout(**given)
            case _:
                return RetryHosts(hosts=tuple(filter(None, (match["rest"] or "").strip().split(","))), **given)

    def skip_host(self, match: re.Match[str], now: datetime) -> Command:
        return SkipHost(id=self.id, by=self.caller(match["who"]), name=match["name"], host=match["host"])

    def drain_rollout_host(self, match: re.Match[str], now: datetime) -> Command:
        plan = plan_drain(self._fleet, match["host"], Capacity())
        return DrainRolloutHost(
            id=self.id,
            by=NODE,
            rollout=match["name"],
            host=match["host"],
            placements=plan.placements,
            left=plan.left,
            live=bool(match["live"]),
        )

    def report_check(self, match: re.Match[str], now: datetime) -> Command:
        return ReportRolloutCheck(
            id=self.id,
            by=NODE,
            rollout=match["name"],
            wave=int(match["wave"]),
            passed=match["how"] == "well",
            detail=match["detail"],
            firing=tuple(match["detail"].split(", ")) if match["how"] == "firing" else (),
        )

    def report_command(self, match: re.Match[str], now: datetime) -> Command:
        return ReportHostCommand(
            id=self.id,
            by=NODE,
            rollout=match["name"],
            host=match["host"],
            purpose=HostCommandPurpose.RUN if match["run"] else HostCommandPurpose.ASK,
            exit_status=int(match["status"]),
        )


_SENTENCES: tuple[tuple[str, Callable[[Reader, re.Match[str], datetime], Command]], ...] = (
    (r"(?P<who>\S+) rolls out (?P<name>\S+): (?P<operation>\S+)(?P<terms>.*)", Reader.start_rollout),
    (r"(?P<who>\S+) edits rollout (?P<name>\S+): (?P<terms>.*)", Reader.edit_rollout),
    (r"rollout (?P<name>\S+) goes on", Reader.advance_rollout),
    (
        r"(?P<who>\S+) (?P<verb>pauses|resumes|cancels|retries) rollout (?P<name>\S+)(?P<rest> \S+)?",
        Reader.steer_rollout,
    ),
    (r"(?P<who>\S+) skips (?P<host>\S+) of rollout (?P<name>\S+)", Reader.skip_host),
    (r"rollout (?P<name>\S+) drains (?P<host>\S+)(?P<live> live)?", Reader.drain_rollout_host),
    (
        r"rollout (?P<name>\S+) finds wave (?P<wave>\d+) (?P<how>well|unwell|firing): (?P<detail>.*)",
        Reader.report_check,
    ),
    (
        r"(?P<run>the command on )?(?P<host>\S+) of rollout (?P<name>\S+) (?:ends|answers) with (?P<status>\d+)",
        Reader.report_command,
    ),
    (r"(?P<who>\S+) repairs host (?P<host>\S+)", Reader.repair_host),
    (r"(?P<who>\S+) (?P<un>un)?cordons host (?P<host>\S+)", Reader.cordon),
    (
        rf"(?P<who>\S+) drains host (?P<host>\S+)(?P<live> live)?{_PLAN}{_DETAILS}",
        Reader.drain,
    ),
    (r"(?P<who>\S+) records (?P<vm>\S+) on (?P<host>\S+)", Reader.record_move),
    (r"the driver started (?P<vm>\S+), as asked(?P<reason>)", Reader.report_switch),
    (r"the driver stopped (?P<vm>\S+), as asked(?P<reason>)", Reader.report_switch),
    (r"the driver cannot (?:start|stop) (?P<vm>\S+): (?P<reason>.*)", Reader.report_switch),
    (rf"(?P<who>\S+) moves (?P<vm>\S+) to (?P<host>\S+)(?: (?P<how>live|by driver))?{_DETAILS}", Reader.move),
    (rf"(?P<who>\S+) (?P<verb>\S+?)s host (?P<host>\S+)(?P<live> live)?{_DETAILS}", Reader.operate_host),
    (rf"(?P<who>\S+) (?P<verb>restart|redeploy|freeze|evict|delete)s (?P<vm>\S+){_DETAILS}", Reader.operate_vm),
    (r"(?P<who>\S+) starts (?P<vm>\S+)(?P<how> by driver)?", Reader.start),
    (r"(?P<who>\S+) deallocates (?P<vm>\S+)(?P<how> by driver)?", Reader.deallocate),
    (r"(?P<who>\S+) approves (?P<events>.*)", Reader.approve),
    (
        r"(?P<who>\S+) postpones (?P<event>\S+) by (?P<seconds>-?\d+) s(?: saying (?P<reason>.*))?",
        Reader.postpone,
    ),
    (r"(?P<who>\S+) reclaims (?:(?P<count>-?\d+) spot VMs|the spot VMs of (?P<host>\S+))", Reader.reclaim),
    (r"(?P<who>\S+) scales (?P<group>\S+) in by (?P<count>-?\d+)", Reader.scale_in),
    (r"(?P<who>\S+) cancels (?P<event>\S+)", Reader.cancel),
    (r"(?P<who>\S+) sets (?P<group>\S+) (?P<terms>.*)", Reader.set_group),
    (r"(?P<who>\S+) declares: (?P<terms>.*)", Reader.declare),
    (r"(?P<who>\S+) applies: (?P<terms>.*)", Reader.apply),
    (r"the service starts with: (?P<terms>.*)", Reader.apply),
    (r"(?P<who>\S+) asks", Reader.ask),
    (r"(?P<who>\S+) is shown (?P<event>\S+)", Reader.see),
    (r"the time comes", Reader.wake),
    (r"the record is kept that (?P<vm>\S+) asked", Reader.record_asked),
    (rf"the sweep finds (?P<group>\S+) last asked (?P<at>{_TIME})", Reader.sweep),
    (r"the driver begins (?P<event>\S+)", Reader.attempt),
    (r"the driver is done with (?P<event>\S+?)(?:, (?P<moves>.*))?", Reader.report_done),
    (r"the driver fails (?P<event>\S+?)(?:, (?P<moves>[^:]*))?: (?P<reason>.*)", Reader.report_failed),
    (
        r"the driver (?P<how>sees|finds) (?P<vm>\S+) (?P<what>\S+)(?: to (?P<host>\S+))?(?: saying (?P<detail>.*))?",
        Reader.observe,
    ),
)


def _rollout_terms(words: str, given: dict[str, Any] | None = None) -> RolloutTerms:
    """Read ``key=value`` words; a list has commas, and ``_`` stands for a space."""
    terms = dict(given or {})
    for word in words.split():
        key, _, value = word.partition("=")
        is_list = key in ("hosts", "windows", "alerts", "canary_hosts")
        text = value.replace("_", " ")
        if key == "parallel_per":
            terms[key] = {name: int(count) for name, count in (each.split(":") for each in value.split(","))}
        elif key == "gate":
            terms[key] = {"url": value}
        else:
            terms[key] = [each.strip() for each in text.split(";" if key == "windows" else ",")] if is_list else text
    return msgspec.convert(terms, RolloutTerms, strict=False)


def _moves(words: str | None) -> dict[str, str]:
    return dict(move.split(" on ") for move in words.split(", ")) if words else {}


def _details(match: re.Match[str]) -> dict[str, Any]:
    return {
        "not_before": match["not_before"] and read_time(match["not_before"]),
        "duration": match["duration"] and int(match["duration"]),
        "description": match["description"],
    }


def _find(pattern: str, terms: list[str]) -> Iterator[tuple[str, ...]]:
    for term in terms:
        if match := re.fullmatch(pattern, term):
            yield match.groups("")


def _terms(name: str, kind: str, words: str) -> GroupTerms:
    terms = dict(word.split("=") for word in words.split())
    return GroupTerms(
        name,
        GroupKind(kind),
        ApprovalRule(terms.get("approval", "any")),
        int(terms["terminate_notice"]) if "terminate_notice" in terms else None,
        EvictionPolicy(terms.get("eviction", "deallocate")),
        _policy(terms),
    )


def _policy(terms: dict[str, str]) -> Policy:
    flags = ("approve_user_reboot", "approve_user_redeploy", "approve_all_down", "restart_after_crash")
    return Policy(
        quorum=int(terms.get("quorum", 0)),
        postpone_limit=int(terms.get("postpone_limit", 0)),
        quiet_hours=tuple(filter(None, terms.get("quiet_hours", "").replace("_", " ").split(";"))),
        **{key: terms[key] == "True" for key in flags if key in terms},
    )


def _vm(name: str, group: str, host: str, words: str) -> Vm:
    keys = dict(word.partition("=")[::2] for word in words.split())
    return Vm(
        name,
        group,
        host,
        update_domain=int(keys.get("ud", 0)),
        fault_domain=int(keys.get("fd", 0)),
        address=keys.get("address", ""),
        spot="spot" in keys,
    )
