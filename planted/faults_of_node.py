"""Faults of the node: writer, replica, performer, power requests, deadlines, clock."""

from planted.fault import Fault

_WRITER = "tests/node/test_writer.py"
_PERFORMER = "tests/node/test_performer.py"
_ONCE = "No impact is knowingly carried out twice."
_DURABLE = "No reply, document, driver call or notification precedes the durable fact."
_REPLY = "The callers learn the result: done, nothing was changed, or unknown."

FAULTS = (
    Fault(
        name="The driver is called although the attempt was refused",
        promise=_DURABLE,
        file="src/forewarn/node/performer.py",
        old="            except ForewarnError:\n                return False",
        new="            except ForewarnError:\n                return True",
        found_by=(_PERFORMER,),
    ),
    Fault(
        name="The driver is called again after a crash without being asked first",
        promise=_ONCE,
        file="src/forewarn/node/performer.py",
        old="if begun and begun.attempts:",
        new="if begun and begun.attempts > 1:",
        found_by=(_PERFORMER,),
    ),
    Fault(
        name="An impact with an unknown result is carried out again",
        promise=_ONCE,
        file="src/forewarn/node/performer.py",
        old="                case ImpactUnknown(reason=reason):\n",
        new="                case ImpactUnknown():\n                    outcome = ImpactNotBegun()\n"
        "                case ImpactUnknown(reason=reason):\n",
        found_by=(_PERFORMER,),
    ),
    Fault(
        name="An attempt of unknown result is recorded a second time",
        promise=_ONCE,
        file="src/forewarn/node/performer.py",
        old="if (now := self._event(event.id)) and now.attempts > event.attempts:",
        new="if (now := self._event(event.id)) and now.attempts > event.attempts + 1:",
        found_by=(_PERFORMER,),
    ),
    Fault(
        name="A deallocated VM is impacted",
        promise="A VM that is off stays off through what happens to its host.",
        file="src/forewarn/node/performer.py",
        old="            if not vm.deallocated\n            and not (is_of_host",
        new="            if not (is_of_host",
        found_by=(_PERFORMER,),
    ),
    Fault(
        name="A cordoned host is offered to the driver",
        promise="Nothing is sent to a cordoned host.",
        file="src/forewarn/node/performer.py",
        old="if host.name not in left and host.name not in fleet.cordoned and",
        new="if host.name not in left and",
        found_by=(_PERFORMER,),
    ),
    Fault(
        name="A failed append is called done",
        promise=_REPLY,
        file="src/forewarn/node/writer.py",
        old="if is_confirmed and await self._entries_after(after, len(entries)) == entries:",
        new="if is_confirmed and await self._entries_after(after, len(entries)) is not None:",
        found_by=(_WRITER,),
    ),
    Fault(
        name="An append of unknown result is called not done",
        promise=_REPLY,
        file="src/forewarn/node/writer.py",
        old='        if is_confirmed:\n            return Unavailable(f"nothing was changed: {error}")',
        new='        if entries:\n            return Unavailable(f"nothing was changed: {error}")',
        found_by=(_WRITER,),
    ),
    Fault(
        name="Writing goes on after a failed append without asking the journal",
        promise="After a failed append the journal is asked for its last revision.",
        file="src/forewarn/node/writer.py",
        old="        after = self._replica.revision\n        self._is_confirmed = False\n",
        new="        after = self._replica.revision\n",
        found_by=(_WRITER,),
    ),
    Fault(
        name="A refusal that rests on a lost append is given to its caller",
        promise="Readers see durable facts only.",
        file="src/forewarn/node/writer.py",
        old='_resolve(reply, Unavailable("nothing was changed: the journal cannot be written; ask again"))',
        new="_resolve(reply, word)",
        found_by=(_WRITER,),
    ),
    Fault(
        name="The replica counts a commit of several entries as one",
        promise="One writer: an append names the revision it expects.",
        file="src/forewarn/node/replica.py",
        old="        self.revision += len(entries)\n",
        new="        self.revision += min(len(entries), 1)\n",
        found_by=("tests/node/test_replica.py", _WRITER),
    ),
    Fault(
        name="A listener that failed is not loaded again",
        promise="A commit listener that raises is loaded again from the fleet and counted.",
        file="src/forewarn/node/feed.py",
        old="                self._count(listener, error)\n                self._reload(listener, commit.fleet)",
        new="                self._count(listener, error)",
        found_by=("tests/node/test_feed.py",),
    ),
    Fault(
        name="A VM is started twice at the same time",
        promise="Each VM has one call of the driver at a time.",
        file="src/forewarn/node/power.py",
        old="if request and not request.failure and request.vm not in self._tasks:",
        new="if request and not request.failure:",
        found_by=("tests/node/test_power.py",),
    ),
    Fault(
        name="A power request that failed is repeated without being asked for",
        promise="A failure is recorded and holds up nothing; the same command makes another attempt.",
        file="src/forewarn/node/power.py",
        old="        return request if request and not request.failure else None",
        new="        return request or None",
        found_by=("tests/node/test_power.py",),
    ),
    Fault(
        name="An event that is brought forward starts at its old time",
        promise="Every event starts when it is due.",
        file="src/forewarn/node/deadlines.py",
        old="case Postponed(event=id_, not_before=when) | BroughtForward(event=id_, not_before=when):",
        new="case BroughtForward():\n                        pass\n"
        "                    case Postponed(event=id_, not_before=when):",
        found_by=("tests/node/test_deadlines.py",),
    ),
    Fault(
        name="An event that waits for the end of quiet hours is forgotten",
        promise="An event that was approved in quiet hours starts when they end, also after a restart.",
        file="src/forewarn/node/deadlines.py",
        old="case Waiting(event=id_, until=datetime() as when):",
        new="case Waiting(event=id_, until=datetime() as when) if when <= self._node.clock.now():",
        found_by=("tests/node/test_deadlines.py",),
    ),
    Fault(
        name="Deadlines are forgotten while the journal cannot be written",
        promise="Every event starts when it is due.",
        file="src/forewarn/node/deadlines.py",
        old="                self._put_back(due)\n",
        new="",
        found_by=("tests/node/test_deadlines.py",),
    ),
    Fault(
        name="After a restart with a clock behind the record, a clock that is set ahead starts events",
        promise="The rules receive whether an event's notice has really passed.",
        file="src/forewarn/node/timekeeper.py",
        old="(now if is_behind else max(now, fleet.last_at)).timestamp()",
        new="max(now, fleet.last_at).timestamp()",
        found_by=("tests/node/test_timekeeper.py",),
    ),
    Fault(
        name="A step of the clock is not noticed",
        promise="Steps of the clock are recorded, and events start only when their notice has really passed.",
        file="src/forewarn/node/timekeeper.py",
        old="        if abs(now - expected) > TOLERANCE:\n",
        new="        if now - expected > TOLERANCE:\n",
        found_by=("tests/node/test_timekeeper.py",),
    ),
    Fault(
        name="A process that resigned goes on calling the driver",
        promise="Before lead and after resign no driver is called.",
        file="src/forewarn/node/leader.py",
        old="                started.push_async_callback(part.stop)\n",
        new="",
        found_by=("tests/node/test_leader.py",),
    ),
)
