"""Operators and owners: they send the requests of a plan to the control API, and repeat what got no answer."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from forewarn.simulator.actions import (
    PlannedAction,
    ReadEverything,
    RequestDegradation,
    RequestEventChange,
    RequestFleetChange,
    RequestHostOperation,
    RequestMove,
    RequestReclaim,
    RequestRevocation,
    RequestScaleIn,
    RequestSubscription,
    RequestTerms,
    RequestToken,
    RequestUnsubscription,
    RequestVmOperation,
)
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.service import Service
from forewarn.simulator.exchanges import ControlExchange
from forewarn.simulator.plan import Plan

READS = (
    "/v1/vms",
    "/v1/groups",
    "/v1/hosts",
    "/v1/events",
    "/v1/fleet",
    "/v1/health",
    "/v1/tokens",
    "/v1/history",
    "/v1/subscriptions",
)
_ATTEMPTS = 3
_PAUSE = 2.0


class EventLabels:
    """Labels of events, E1 being the first that was announced."""

    def __init__(self) -> None:
        self._ids: list[str] = []

    def give(self, id_: str) -> None:
        self._ids.append(id_.upper())

    def id_of(self, label: str) -> str:
        """Return the id of an event; one that nobody has where the label is not given yet."""
        number = int(label[1:])
        return self._ids[number - 1] if number <= len(self._ids) else "00000000-0000-4000-8000-000000000000"


class Operators:
    """Everybody who uses the control API."""

    def __init__(
        self, plan: Plan, loop: SimulatedLoop, service: Service, see: Callable[[ControlExchange], None]
    ) -> None:
        self._plan = plan
        self._loop = loop
        self._service = service
        self._see = see
        self._process = SimulatedProcess("operators", "10.9.9.9")
        self._tokens: dict[str, tuple[str, str]] = {}
        """Id and text of each owner's token."""
        self._under_way = 0
        self.labels = EventLabels()

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def do(self, action: PlannedAction) -> None:
        """Begin what an action asks for; it goes on by itself."""
        self._under_way += 1
        task = self._loop.spawn(self._process, self._do(action))
        task.add_done_callback(partial(self._done))

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._under_way -= 1
        task.result()

    async def prepare(self) -> None:
        """Give the owners their tokens, and set the terms of the groups."""
        for owner, groups in self._plan.owners.items():
            await self._create_token(owner, groups, f"token-{owner}")
        for group in self._plan.groups:
            if group.terms != "{}":
                await self.ask("ann", "PATCH", f"/v1/groups/{group.name}", group.terms, f"terms-{group.name}")

    async def ask(
        self, who: str, method: str, path: str, body: str = "", key: str = "", *, attempts: int = _ATTEMPTS
    ) -> ControlExchange:
        """Send a request; where no response comes, send it again with the same key."""
        groups = self._plan.owners.get(who)
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(_PAUSE)
            sent_at = self._loop.time()
            token = self._tokens.get(who, ("", "fw_0000000000000000_none"))[1] if groups is not None else ""
            answer = await self._service.request(method, path, body.encode(), token=token, key=key, user=who)
            exchange = ControlExchange(
                who,
                method,
                path,
                body.encode(),
                key,
                sent_at,
                self._loop.time(),
                answer.status if answer else 0,
                answer.body if answer else b"",
                groups,
            )
            self._see(exchange)
            if answer is not None and answer.status != 503:
                break
        return exchange

    async def read_everything(self, who: str) -> None:
        for path in READS:
            await self.ask(who, "GET", path, attempts=1)

    async def _do(self, action: PlannedAction) -> None:
        match action:
            case RequestVmOperation(who=who, operation=operation, vm=vm, key=key):
                await self.ask(who, "POST", f"/v1/vms/{vm}/operations", _json(operation=operation), key)
            case RequestMove(who=who, vm=vm, host=host, key=key):
                await self.ask(who, "POST", f"/v1/vms/{vm}/move", _json(host=host), key)
            case RequestHostOperation(who=who, operation=operation, host=host, key=key):
                await self.ask(who, "POST", f"/v1/hosts/{host}/operations", _json(operation=operation), key)
            case RequestDegradation(who=who, host=host, seconds=seconds, key=key):
                expected = EPOCH + timedelta(seconds=round(self._loop.time() + seconds))
                body = _json(operation="degrade", not_before=f"{expected:%Y-%m-%dT%H:%M:%SZ}")
                await self.ask(who, "POST", f"/v1/hosts/{host}/operations", body, key)
            case RequestEventChange(who=who, verb=verb, event=event, key=key):
                body = _json(seconds=20, reason="busy") if verb == "postpone" else ""
                await self.ask(who, "POST", f"/v1/events/{self.labels.id_of(event)}/{verb}", body, key)
            case RequestTerms(who=who, group=group, terms=terms, key=key):
                await self.ask(who, "PATCH", f"/v1/groups/{group}", terms, key)
            case RequestReclaim(who=who, count=count, key=key):
                await self.ask(who, "POST", "/v1/spot/reclaim", _json(count=count), key)
            case RequestScaleIn(who=who, group=group, count=count, key=key):
                await self.ask(who, "POST", f"/v1/groups/{group}/scale-in", _json(count=count), key)
            case RequestFleetChange(who=who, change=change, key=key):
                await self.ask(who, "PATCH", "/v1/fleet", change, key)
            case RequestToken(owner=owner, group=group, key=key):
                await self._create_token(owner, (group,), key)
            case RequestRevocation(owner=owner, key=key):
                id_ = self._tokens.get(owner, ("0" * 16, ""))[0]
                await self.ask("ann", "DELETE", f"/v1/tokens/{id_}", "", key)
            case RequestSubscription(name=name, group=group, key=key):
                groups = [] if group == "all" else [group]
                body = _json(name=name, kind="webhook", target="https://receiver.example/hook", groups=groups)
                await self.ask("ann", "POST", "/v1/subscriptions", body, key)
            case RequestUnsubscription(name=name, key=key):
                await self.ask("ann", "DELETE", f"/v1/subscriptions/{name}", "", key)
            case ReadEverything(who=who):
                await self.read_everything(who)

    async def _create_token(self, owner: str, groups: tuple[str, ...], key: str) -> None:
        body = json.dumps({"name": f"{owner}-{key}", "role": "owner", "groups": groups}, separators=(",", ":"))
        exchange = await self.ask("ann", "POST", "/v1/tokens", body, key)
        told = json.loads(exchange.response) if exchange.status == 201 else {}
        if told.get("token"):
            self._tokens[owner] = told["id"], told["token"]


def _json(**fields: Any) -> str:  # noqa: ANN401 - whatever JSON has
    return json.dumps(fields, separators=(",", ":"))
