"""Operators and owners: they send the requests of a plan to the control API, and repeat what got no answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from forewarn.control.bodies import DeclarationPage
from forewarn.simulator.actions.access_requests import (
    VIEWER,
    ReadEverything,
    ReadOperation,
    ReadPage,
    RequestPassingToken,
    RequestRevocation,
    RequestRotation,
    RequestToken,
    RequestViewer,
    SendTwice,
)
from forewarn.simulator.actions.dry_runs import NO_BODY, ROUTES, TryRequest
from forewarn.simulator.actions.fleet_requests import RequestFleetApply, RequestFleetChange, TryFleetApply
from forewarn.simulator.actions.group_requests import (
    RequestCancellations,
    RequestEventChange,
    RequestGroupSet,
    RequestScaleIn,
    RequestSelectedCancellations,
    RequestTerms,
)
from forewarn.simulator.actions.host_requests import (
    RequestDegradation,
    RequestHostBulk,
    RequestHostLabel,
    RequestHostOperation,
    RequestHostSelection,
    RequestHostSet,
    TryHostSelection,
)
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.actions.rollout_requests import (
    RequestRollout,
    RequestRolloutChange,
    RequestRolloutEdit,
    RequestRolloutSkip,
    TryRollout,
)
from forewarn.simulator.actions.subscription_requests import RequestSubscription, RequestUnsubscription
from forewarn.simulator.actions.vm_requests import (
    RecordMove,
    RequestBulk,
    RequestHostReclaim,
    RequestLabel,
    RequestMove,
    RequestReclaim,
    RequestTrial,
    RequestTwice,
    RequestVmChange,
    RequestVmOperation,
    RequestVmSelection,
)
from forewarn.simulator.actors.fleet_files import request_to_apply
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.service import ControlResponse
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
_STEERING = {"withdraw": ("pause", '{"withdraw":true}'), "pause": ("pause", "{}")}
"""The route and the body of what is asked of a rollout."""
_NO_EVENT = "00000000-0000-4000-8000-000000000000"
_NO_TOKEN = ("", "fw_0000000000000000_none")
_ATTEMPTS = 3
_PAUSE = 2.0


class EventLabels:
    """Labels of events, E1 being the first that was announced."""

    def __init__(self) -> None:
        self._ids: list[str] = []

    def give(self, id_: str) -> None:
        self._ids.append(id_.upper())

    def id_of(self, label: str) -> str:
        """Return the id of an event; an id of no event where the label is not given yet."""
        number = int(label[1:])
        return self._ids[number - 1] if number <= len(self._ids) else _NO_EVENT


class Operators:
    """Everybody who uses the control API."""

    def __init__(
        self,
        plan: Plan,
        loop: SimulatedLoop,
        request: Callable[..., Awaitable[ControlResponse | None]],
        see: Callable[[ControlExchange], None],
        as_of: Callable[[], float] | None = None,
        fleet_file: Path = Path("fleet.toml"),
    ) -> None:
        """``as_of``: tells up to which second every node holds everything, where there are several."""
        self._fleet_file = fleet_file
        self._plan = plan
        self._loop = loop
        self._request = request
        self._as_of = as_of
        self._see = see
        self._process = SimulatedProcess("operators", "10.9.9.9")
        self._tokens: dict[str, tuple[str, str]] = {}
        """Id and text of the token of each owner, and of the viewer."""
        self._operations: dict[str, str] = {}
        """The id of the operation that each key stands for, as it was told last."""
        self._sends_twice: set[str] = set()
        """Who sends the next request with a key twice."""
        self._under_way = 0
        self.labels = EventLabels()

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def do(self, action: PlannedAction) -> None:
        """Begin what an action asks for; it goes on by itself."""
        if isinstance(action, SendTwice):
            self._sends_twice.add(action.who)
            return
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
        self,
        who: str,
        method: str,
        path: str,
        body: str = "",
        key: str = "",
        *,
        attempts: int = _ATTEMPTS,
        token_sent: tuple[str, str] | None = None,
    ) -> ControlExchange:
        """Send a request; where no response comes, send it again with the same key.

        ``token_sent``: id and text of another token than the last one that the caller was given.
        """
        if key and who in self._sends_twice:
            self._sends_twice.discard(who)
            again = partial(self.ask, who, method, path, body, key, attempts=attempts, token_sent=token_sent)
            return (await asyncio.gather(again(), again()))[0]
        groups = self._plan.owners.get(who)
        has_token = groups is not None or who == VIEWER
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(_PAUSE)
            sent_at = self._loop.time()
            id_, token = token_sent or (self._tokens.get(who, _NO_TOKEN) if has_token else ("", ""))
            as_of = self._as_of() if self._as_of else None
            answer = await self._request(method, path, body.encode(), token=token, key=key, user=who)
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
                id_,
                as_of,
            )
            self._see(exchange)
            if answer is not None and answer.status != 503:
                break
        if key and exchange.method != "GET" and 200 <= exchange.status < 300 and b'"operation":' in exchange.response:
            self._operations[key] = json.loads(exchange.response)["operation"]
        return exchange

    async def read_everything(self, who: str) -> None:
        for path in READS:
            await self.ask(who, "GET", path, attempts=1)

    async def _do(self, action: PlannedAction) -> None:
        match action:
            case RequestVmOperation(who=who, operation=operation, vm=vm, key=key):
                await self.ask(who, "POST", f"/v1/vms/{vm}/operations", _json(operation=operation), key)
            case RequestBulk(who=who, operation=operation, pattern=pattern, key=key):
                body = _json(operation=operation, select={"names": [pattern]})
                await self.ask(who, "POST", "/v1/vms/operations", body, key)
            case RequestTrial(who=who, operation=operation, pattern=pattern):
                body = _json(operation=operation, select={"names": [pattern]})
                await self.ask(who, "POST", "/v1/vms/operations?dry_run=true", body)
            case RequestLabel(who=who, vm=vm, value=value, key=key):
                labels = {"tier": None if value == "none" else value}
                await self.ask(who, "PATCH", f"/v1/vms/{vm}", _json(labels=labels), key)
            case RequestHostSet(who=who, host=host, change="added", key=key):
                await self.ask(who, "POST", "/v1/hosts", _json(name=host), key)
            case RequestHostSet(who=who, host=host, key=key):
                await self.ask(who, "DELETE", f"/v1/hosts/{host}", "", key)
            case RequestTwice(who=who, operation=operation, vm=vm, key=key):
                body = _json(operation=operation)
                await asyncio.gather(
                    *(self.ask(who, "POST", f"/v1/vms/{vm}/operations", body, key) for _ in range(2))
                )
            case RequestMove(who=who, vm=vm, host=host, key=key):
                await self.ask(who, "POST", f"/v1/vms/{vm}/move", _json(host=host), key)
            case RecordMove(who=who, vm=vm, host=host, key=key):
                await self.ask(who, "POST", f"/v1/vms/{vm}/move", _json(host=host, record=True), key)
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
            case RequestPassingToken(owner=owner, group=group, seconds=seconds, key=key):
                await self._create_token(owner, (group,), key, lasts=seconds)
            case RequestViewer(key=key):
                await self._create_token(VIEWER, (), key, role="viewer")
            case RequestRotation(owner=owner, overlap=overlap, key=key):
                await self._rotate_token(owner, overlap, key)
            case RequestCancellations(who=who, group=group, key=key):
                await self.ask(who, "POST", "/v1/events/cancel", _json(group=group), key)
            case RequestSelectedCancellations(who=who, selection=selection, key=key):
                await self.ask(who, "POST", "/v1/events/cancel", selection, key)
            case RequestVmSelection(who=who, operation=operation, selection=selection, key=key):
                await self.ask(who, "POST", "/v1/vms/operations", _selected(operation, selection), key)
            case RequestHostSelection(who=who, operation=operation, selection=selection, key=key):
                await self.ask(who, "POST", "/v1/hosts/operations", _selected(operation, selection), key)
            case TryHostSelection(who=who, operation=operation, selection=selection):
                await self.ask(who, "POST", "/v1/hosts/operations?dry_run=true", _selected(operation, selection))
            case RequestVmChange(who=who, vm=vm, keys=keys, key=key):
                await self.ask(who, "PATCH", f"/v1/vms/{vm}", keys, key)
            case RequestHostReclaim(who=who, host=host, key=key):
                await self.ask(who, "POST", "/v1/spot/reclaim", _json(host=host), key)
            case RequestFleetApply(who=who, how=how, key=key):
                await self._apply_fleet_file(who, how, "/v1/fleet/declaration", key)
            case TryFleetApply(who=who, how=how):
                await self._apply_fleet_file(who, how, "/v1/fleet/declaration/plan")
            case TryRequest(who=who, request=request, subject=subject, body=body):
                method, path = ROUTES[request]
                name = self.labels.id_of(subject) if request.endswith("-event") else subject
                await self.ask(who, method, f"{path.format(name)}?dry_run=true", body.removeprefix(NO_BODY))
            case ReadOperation(who=who, key=key):
                await self.ask(who, "GET", f"/v1/operations/{self._operations.get(key, _NO_EVENT)}", attempts=1)
            case ReadPage(who=who, path=path):
                await self.ask(who, "GET", path, attempts=1)
            case RequestHostBulk(who=who, operation=operation, pattern=pattern, key=key):
                body = _json(operation=operation, select={"names": [pattern]})
                await self.ask(who, "POST", "/v1/hosts/operations", body, key)
            case RequestHostLabel(who=who, host=host, value=value, key=key):
                labels = {"tier": None if value == "none" else value}
                await self.ask(who, "PATCH", f"/v1/hosts/{host}", _json(labels=labels), key)
            case RequestGroupSet(who=who, group=group, change="added", key=key):
                await self.ask(who, "POST", "/v1/groups", _json(name=group, kind="availability-set"), key)
            case RequestGroupSet(who=who, group=group, key=key):
                await self.ask(who, "DELETE", f"/v1/groups/{group}", "", key)
            case RequestSubscription(name=name, group=group, key=key):
                groups = [] if group == "all" else [group]
                body = _json(name=name, kind="webhook", target="https://receiver.example/hook", groups=groups)
                await self.ask("ann", "POST", "/v1/subscriptions", body, key)
            case RequestUnsubscription(name=name, key=key):
                await self.ask("ann", "DELETE", f"/v1/subscriptions/{name}", "", key)
            case RequestRollout(who=who, rollout=name, terms=terms, key=key):
                await self.ask(who, "POST", "/v1/rollouts", _rollout(name, terms), key)
            case TryRollout(who=who, rollout=name, terms=terms):
                await self.ask(who, "POST", "/v1/rollouts/plan", _rollout(name, terms))
            case RequestRolloutEdit(who=who, rollout=name, terms=terms, key=key):
                await self.ask(who, "PATCH", f"/v1/rollouts/{name}", terms, key)
            case RequestRolloutSkip(who=who, rollout=name, host=host, key=key):
                await self.ask(who, "POST", f"/v1/rollouts/{name}/skip", _json(host=host), key)
            case RequestRolloutChange(who=who, verb=verb, rollout=name, key=key):
                path, body = _STEERING.get(verb, (verb, "{}" if verb == "retry" else ""))
                await self.ask(who, "POST", f"/v1/rollouts/{name}/{path}", body, key)
                await self.ask(who, "GET", f"/v1/rollouts/{name}", attempts=1)
            case ReadEverything(who=who):
                await self.read_everything(who)

    async def _apply_fleet_file(self, who: str, how: str, path: str, key: str = "") -> None:
        """Compare the file with the declaration last applied, and send what differs, as ``fleet apply`` does."""
        pages: list[DeclarationPage] = []
        cursor: str | None = ""
        while cursor is not None:
            query = f"?cursor={cursor}" if cursor else ""
            page = await self.ask(who, "GET", f"/v1/fleet/declaration{query}")
            if page.status != 200:
                return
            pages.append(msgspec.json.decode(page.response, type=DeclarationPage))
            cursor = pages[-1].next
        is_whole = len({(page.revision, page.changes) for page in pages}) == 1
        body = request_to_apply(self._fleet_file.read_bytes(), how, pages) if is_whole else ""
        if body:
            await self.ask(who, "POST", path, body, key)

    async def _create_token(
        self, owner: str, groups: tuple[str, ...], key: str, *, role: str = "owner", lasts: int | None = None
    ) -> None:
        ends = {} if lasts is None else {"lasts": lasts}
        body = _json(name=f"{owner}-{key}", role=role, groups=groups, **ends)
        self._keep_token(owner, await self.ask("ann", "POST", "/v1/tokens", body, key))

    async def _rotate_token(self, owner: str, overlap: int, key: str) -> None:
        id_, old = self._tokens.get(owner, ("0" * 16, ""))
        path = f"/v1/tokens/{id_}/rotate?overlap={overlap}"
        if self._keep_token(owner, await self.ask("ann", "POST", path, "", key)):
            await self.ask(owner, "GET", "/v1/vms", attempts=1, token_sent=(f"{id_} before {key}", old))

    def _keep_token(self, owner: str, exchange: ControlExchange) -> bool:
        """Let an owner use the token of a response from now on; tell whether there is one."""
        created = json.loads(exchange.response) if exchange.status == 201 else {}
        if created.get("token"):
            self._tokens[owner] = created["id"], created["token"]
        return "token" in created


def _selected(operation: str, selection: str) -> str:
    """Return the body of an operation on several VMs or hosts; ``selection`` has the rest of it."""
    return _json(operation=operation, **json.loads(selection))


def _rollout(name: str, terms: str) -> str:
    return f'{{"name":"{name}","terms":{terms}}}'


def _json(**fields: Any) -> str:  # noqa: ANN401 - whatever JSON has
    return json.dumps(fields, separators=(",", ":"))
