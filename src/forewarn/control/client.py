"""Typed client of the control API, for the command line and other programs.

    with Client.local(Path("forewarn-data")) as client:
        for vm in client.vms(group="web"):
            client.operate_vm(vm.name, VmOperationBody(operation="restart"))

Lists are fetched page by page as they are read. Error responses are raised as exceptions of ``core.errors``.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from time import sleep
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

import msgspec

from forewarn.audit.history_lines import HistoryLine
from forewarn.audit.timeline import EventView, Timeline
from forewarn.control import bodies
from forewarn.control.bodies import DeclarationBody, DeclarationPage, DifferencesView, FleetBody, PlanView, ResultPage
from forewarn.control.rollout_views import RolloutDetail, RolloutPlanView, RolloutView
from forewarn.control.transport import AnswerLost, Transport, UnixTransport, WebTransport
from forewarn.control.views import CommandResult, DrainPlanView, GroupDetail, GroupView, HostView, VmDetail, VmView
from forewarn.core.errors import OutcomeUnknown, Refused, Unavailable, Unknown
from forewarn.core.model import Role
from forewarn.fleetfile.diff import FleetDiff

_View = TypeVar("_View")
_Page = TypeVar("_Page", bodies.DeclaredPage, DeclarationPage, ResultPage[Any])
_PAGE = 1_000
_SLICE = 500
"""Number of records per line of a change."""
_JSON = "application/json"
_LINES = "application/jsonl"
_SESSION = 12 * 3600
"""Seconds that a session of the dashboard lasts, of a user of the unix socket."""
_ASK_AGAIN = (1.0, 2.0, 4.0)
"""Delays in seconds before a request with an unknown outcome is repeated."""


class ControlClient:
    """Client of one service."""

    def __init__(
        self, transport: Transport, *, page: int = _PAGE, slice_: int = _SLICE, pauses: tuple[float, ...] = _ASK_AGAIN
    ) -> None:
        self._transport = transport
        self._page = page
        self._slice = slice_
        self._pauses = pauses
        self.key = ""
        """The Idempotency-Key of requests that name none; where it is empty, each of them gets one of its own."""
        self.is_dry_run = False
        """Whether writes change nothing: the service returns what they would do."""
        self.on_dry_run: Callable[[CommandResult], None] = lambda _: None
        """Called with the result of each dry run."""
        self.key_prefix = ""
        """What keys begin with that are drawn."""

    @classmethod
    def local(cls, directory: Path) -> Self:
        """Connect to the service with this data directory, as the current user."""
        return cls(UnixTransport(directory))

    @classmethod
    def remote(cls, url: str, token: str, authority: Path | None = None) -> Self:
        """Connect to a remote service with a token; ``authority`` is the CA of its certificate."""
        return cls(WebTransport(url, token, authority))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def end(self) -> None:
        """End the request of another thread, and send no more."""
        self._transport.end()

    @contextmanager
    def dry_run(self) -> Iterator[None]:
        """Let writes change nothing for a while, and return what they would do."""
        before, self.is_dry_run = self.is_dry_run, True
        called, self.on_dry_run = self.on_dry_run, lambda _: None
        try:
            yield
        finally:
            self.is_dry_run, self.on_dry_run = before, called

    def me(self) -> bodies.CallerView:
        return self.get("/v1/me", bodies.CallerView)

    def dashboard_link(self) -> str:
        """Return a link that logs a browser in to the dashboard, once, within five minutes.

        Through the unix socket, the session gets a token of its own.
        """
        at, token = self._transport.where, ""
        if at.startswith("http"):
            base = at.rstrip("/")
        else:
            base = self._dashboard_address()
            name = f"dashboard {self.me().name} {uuid4().hex[:8]}"
            token = self.create_token(bodies.TokenBody(name=name, role=Role.OPERATOR, lasts=_SESSION)).token
        body = bodies.DashboardLinkBody(token=token)
        return base + self.send("POST", "/v1/dashboard/links", bodies.DashboardLink, body).path

    def _dashboard_address(self) -> str:
        """Return the address of the service's control port: a browser cannot use the unix socket."""
        listeners = self.health().listeners or ()
        for listener in listeners:
            if listener.part == "control":
                return f"{'https' if listener.is_tls else 'http'}://{listener.address}"
        raise Refused(
            "the service has no control port, which a browser needs; start it with --control 127.0.0.1:8255"
        )

    def health(self) -> bodies.HealthDetail:
        return self.get("/v1/health", bodies.HealthDetail)

    def cluster(self) -> bodies.ClusterStatus:
        return self.get("/v1/cluster", bodies.ClusterStatus)

    def vms(self, **filters: object) -> Iterator[VmView]:
        return self.pages("/v1/vms", VmView, **filters)

    def vm(self, name: str) -> VmDetail:
        return self.get(f"/v1/vms/{_path_segment(name)}", VmDetail)

    def set_vm(self, name: str, body: bodies.VmSetBody, key: str = "") -> CommandResult:
        return self.send("PATCH", f"/v1/vms/{_path_segment(name)}", CommandResult, body, key)

    def add_group(self, body: bodies.NewGroupBody, key: str = "") -> CommandResult:
        return self.send("POST", "/v1/groups", CommandResult, body, key)

    def remove_group(self, name: str, key: str = "") -> CommandResult:
        return self.send("DELETE", f"/v1/groups/{_path_segment(name)}", CommandResult, key=key)

    def remove_host(self, name: str, key: str = "") -> CommandResult:
        return self.send("DELETE", f"/v1/hosts/{_path_segment(name)}", CommandResult, key=key)

    def set_host(self, name: str, body: bodies.HostSetBody, key: str = "") -> CommandResult:
        return self.send("PATCH", f"/v1/hosts/{_path_segment(name)}", CommandResult, body, key)

    def operate_vms(self, body: bodies.VmBulkBody, key: str = "") -> CommandResult:
        """Operate on all VMs that are selected; the result names those to which it was not done."""
        return self.send("POST", "/v1/vms/operations", CommandResult, body, key)

    def operate_hosts(self, body: bodies.HostBulkBody, key: str = "") -> CommandResult:
        """Operate on all hosts that are selected; the result names those to which it was not done."""
        return self.send("POST", "/v1/hosts/operations", CommandResult, body, key)

    def cancel_events(self, body: bodies.EventCancelBody, key: str = "") -> CommandResult:
        return self.send("POST", "/v1/events/cancel", CommandResult, body, key)

    def operate_vm(self, name: str, body: bodies.VmOperationBody, key: str = "") -> CommandResult:
        return self.send("POST", f"/v1/vms/{_path_segment(name)}/operations", CommandResult, body, key)

    def move_vm(self, name: str, body: bodies.MoveBody, key: str = "") -> CommandResult:
        return self.send("POST", f"/v1/vms/{_path_segment(name)}/move", CommandResult, body, key)

    def hosts(self, **filters: object) -> Iterator[HostView]:
        return self.pages("/v1/hosts", HostView, **filters)

    def host(self, name: str) -> HostView:
        return self.get(f"/v1/hosts/{_path_segment(name)}", HostView)

    def operate_host(self, name: str, body: bodies.HostOperationBody, key: str = "") -> CommandResult:
        return self.send("POST", f"/v1/hosts/{_path_segment(name)}/operations", CommandResult, body, key)

    def plan_drain(self, name: str) -> DrainPlanView:
        return self.get(f"/v1/hosts/{_path_segment(name)}/drain", DrainPlanView)

    def reclaim_spot(self, body: bodies.ReclaimBody, key: str = "") -> CommandResult:
        return self.send("POST", "/v1/spot/reclaim", CommandResult, body, key)

    def groups(self, **filters: object) -> Iterator[GroupView]:
        return self.pages("/v1/groups", GroupView, **filters)

    def group(self, name: str) -> GroupDetail:
        return self.get(f"/v1/groups/{_path_segment(name)}", GroupDetail)

    def set_terms(self, name: str, body: bodies.TermsBody, key: str = "") -> GroupDetail:
        return self.send("PATCH", f"/v1/groups/{_path_segment(name)}", GroupDetail, body, key)

    def scale_in(self, name: str, body: bodies.ScaleInBody, key: str = "") -> CommandResult:
        return self.send("POST", f"/v1/groups/{_path_segment(name)}/scale-in", CommandResult, body, key)

    def events(self, *, finished: int = 0, **filters: object) -> Iterator[EventView]:
        """Yield the newest ``finished`` finished events, then the unfinished ones."""
        return self.pages("/v1/events", EventView, finished=finished or None, **filters)

    def timeline(self, id: str) -> Timeline:
        return self.get(f"/v1/events/{_path_segment(id)}", Timeline)

    def history(self, **filters: object) -> Iterator[HistoryLine]:
        """Yield the history, newest first, or with ``order="oldest"``."""
        return self.pages("/v1/history", HistoryLine, **filters)

    def approve(self, id: str, key: str = "") -> CommandResult:
        return self.send("POST", f"/v1/events/{_path_segment(id)}/approve", CommandResult, key=key)

    def cancel(self, id: str, key: str = "") -> CommandResult:
        return self.send("POST", f"/v1/events/{_path_segment(id)}/cancel", CommandResult, key=key)

    def postpone(self, id: str, body: bodies.PostponeBody, key: str = "") -> CommandResult:
        return self.send("POST", f"/v1/events/{_path_segment(id)}/postpone", CommandResult, body, key)

    def rollouts(self, *, finished: int = 0) -> tuple[RolloutView, ...]:
        """Return the newest ``finished`` ended rollouts, then those that have not ended."""
        return self.get(f"/v1/rollouts{_query({'finished': finished or None})}", ResultPage[RolloutView]).items

    def rollout(self, name: str) -> RolloutDetail:
        return self.get(f"/v1/rollouts/{_path_segment(name)}", RolloutDetail)

    def plan_rollout(self, body: bodies.RolloutBody) -> RolloutPlanView:
        return self.send("POST", "/v1/rollouts/plan", RolloutPlanView, body)

    def start_rollout(self, body: bodies.RolloutBody, key: str = "") -> RolloutDetail:
        return self.send("POST", "/v1/rollouts", RolloutDetail, body, key)

    def edit_rollout(self, name: str, body: bodies.RolloutEditBody, key: str = "") -> RolloutDetail:
        return self.send("PATCH", f"/v1/rollouts/{_path_segment(name)}", RolloutDetail, body, key)

    def steer_rollout(
        self,
        name: str,
        verb: str,
        body: bodies.PauseRolloutBody | bodies.RetryHostsBody | bodies.SkipHostBody | None = None,
        key: str = "",
    ) -> RolloutDetail:
        """Pause, resume or cancel a rollout, or retry or skip hosts of it."""
        return self.send("POST", f"/v1/rollouts/{_path_segment(name)}/{verb}", RolloutDetail, body, key)

    def operation(self, id: str) -> CommandResult:
        return self.get(f"/v1/operations/{_path_segment(id)}", CommandResult)

    def declared(self, vm: str = "") -> Iterator[bodies.DeclaredPage]:
        """Yield the declared fleet in pages; only one VM if it is named."""
        return self._pages("/v1/fleet", bodies.DeclaredPage, {"vm": vm} if vm else {"limit": self._page})

    def change_fleet(
        self,
        change: FleetDiff,
        *,
        cancel_events: bool = False,
        only_new: bool = False,
        seen: int | None = None,
        key: str = "",
    ) -> CommandResult:
        """Apply a change of any size, as a whole or not at all; ``only_new`` refuses records that exist."""
        terms = FleetBody(cancel_events=cancel_events, only_new=only_new, seen=seen)
        return self._send("PATCH", "/v1/fleet", CommandResult, self._in_lines(terms, change), _LINES, key)

    def declaration(self, limit: int | None = None) -> Iterator[DeclarationPage]:
        """Yield the declaration last applied, in pages."""
        return self._pages("/v1/fleet/declaration", DeclarationPage, {"limit": limit or self._page})

    def differences(self) -> DifferencesView:
        """Return the differences between fleet and fleet file, and the held changes."""
        return self.get("/v1/fleet/declaration/differences", DifferencesView)

    def plan_declaration(self, terms: DeclarationBody, change: FleetDiff) -> PlanView:
        """Return what applying a fleet file would change."""
        return self._send("POST", "/v1/fleet/declaration/plan", PlanView, self._in_lines(terms, change), _LINES, "")

    def apply_declaration(self, terms: DeclarationBody, change: FleetDiff, key: str = "") -> CommandResult:
        """Apply a fleet file of any size, as a whole or not at all."""
        return self._send("POST", "/v1/fleet/declaration", CommandResult, self._in_lines(terms, change), _LINES, key)

    def change_kinds(self) -> Iterator[str]:
        """Yield the kind of every fact as it is committed, until the connection ends.

        The first is ``reset``, once the stream is open.
        """
        lines = self._transport.lines("/v1/changes")
        yield "reset"
        with suppress(Unavailable):
            for line in lines:
                if line.startswith(b"event: "):
                    yield line.removeprefix(b"event: ").decode().strip()

    def tokens(self) -> Iterator[bodies.TokenView]:
        return self.pages("/v1/tokens", bodies.TokenView)

    def create_token(self, body: bodies.TokenBody, key: str = "") -> bodies.NewToken:
        return self.send("POST", "/v1/tokens", bodies.NewToken, body, key)

    def rotate_token(self, id: str, key: str = "", *, overlap: int | None = None) -> bodies.NewToken:
        """Give a token a new secret; the old one stays valid for ``overlap`` seconds."""
        path = f"/v1/tokens/{self._token(id)}/rotate{_query({'overlap': overlap})}"
        return self.send("POST", path, bodies.NewToken, key=key)

    def revoke_token(self, id: str, key: str = "") -> None:
        self._send("DELETE", f"/v1/tokens/{self._token(id)}", None, None, "", key)

    def subscriptions(self) -> Iterator[bodies.SubscriptionView]:
        return self.pages("/v1/subscriptions", bodies.SubscriptionView)

    def add_subscription(self, body: bodies.SubscriptionBody, key: str = "") -> bodies.NewSubscription:
        return self.send("POST", "/v1/subscriptions", bodies.NewSubscription, body, key)

    def remove_subscription(self, id: str, key: str = "") -> None:
        self._send("DELETE", f"/v1/subscriptions/{self._subscription(id)}", None, None, "", key)

    def test_subscription(self, id: str) -> bodies.DeliveryReceipt:
        return self.send("POST", f"/v1/subscriptions/{self._subscription(id)}/test", bodies.DeliveryReceipt)

    def _token(self, id: str) -> str:
        return _path_segment(id) if "/" not in id else _id_of(id, "token", self.tokens())

    def _subscription(self, id: str) -> str:
        return _path_segment(id) if "/" not in id else _id_of(id, "subscription", self.subscriptions())

    def get(self, path: str, view: type[_View]) -> _View:
        return self._decoded(self._transport.request("GET", path, None, {}).body, view)

    def pages(self, path: str, view: type[_View], **query: object) -> Iterator[_View]:
        """Yield the items of a list, page by page."""
        for page in self._pages(path, ResultPage[view], {"limit": self._page, **query}):  # type: ignore[valid-type]
            yield from page.items

    def _pages(self, path: str, view: type[_Page], query: dict[str, object]) -> Iterator[_Page]:
        cursor: str | None = None
        while True:
            page = self.get(path + _query({**query, "cursor": cursor}), view)
            yield page
            cursor = page.next
            if cursor is None:
                return

    def send(
        self, method: str, path: str, view: type[_View], body: msgspec.Struct | None = None, key: str = ""
    ) -> _View:
        """Send a write request, carried out once per key, and return its response."""
        encoded = None if body is None else msgspec.json.encode(body)
        result = self._send(method, path, view, encoded, _JSON, key)
        if result is None:
            raise Unavailable(f"the service at {self._transport.where} sent an empty response")
        return result

    def _send(
        self, method: str, path: str, view: type[_View] | None, body: bytes | None, kind: str, key: str
    ) -> _View:
        key = key or self.key or f"{self.key_prefix}{uuid4()}"
        if self.is_dry_run:
            path += "?dry_run=true"
        headers = {"Idempotency-Key": key}
        if body is not None:
            headers["Content-Type"] = kind
        for pause in (*self._pauses, None):
            try:
                said = self._transport.request(method, path, body, headers).body
                break
            except OutcomeUnknown as error:
                if pause is None:
                    again = f"on the command line: forewarn --idempotency-key {key} ..."
                    raise OutcomeUnknown(f"{error} ({key}; {again})") from None
                sleep(pause)
            except AnswerLost as error:
                raise AnswerLost(f"{error}, or repeat it: forewarn --idempotency-key {key} ...") from None
        result = self._decoded(said, view) if view is not None else None
        if isinstance(result, CommandResult) and result.dry_run:
            self.on_dry_run(result)
        return result  # type: ignore[return-value]

    def _in_lines(self, terms: msgspec.Struct, change: FleetDiff) -> bytes:
        return b"\n".join(msgspec.json.encode(part) for part in (terms, *_parts(change, self._slice)))

    def _decoded(self, response: bytes, view: type[_View]) -> _View:
        try:
            return msgspec.json.decode(response, type=view)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unavailable(f"the service at {self._transport.where} sent an invalid response: {error}") from None


def _path_segment(name: str) -> str:
    if "/" in name or name in (".", ".."):
        raise Unknown(f"there is nothing with the name {name!r}; names do not contain '/'")
    return quote(name, safe="") or "%20"


def _id_of(name: str, kind: str, views: Iterable[bodies.TokenView | bodies.SubscriptionView]) -> str:
    """Return the id for a name that cannot be a path segment; earlier releases allowed such names."""
    for view in views:
        if view.name == name:
            return view.id
    raise Unknown(f"there is no {kind} {name!r}")


def _query(given: dict[str, object]) -> str:
    words = {True: "true", False: "false"}
    found = {
        key: words[value] if isinstance(value, bool) else value for key, value in given.items() if value is not None
    }
    return f"?{urlencode(found)}" if found else ""


def _parts(change: FleetDiff, size: int) -> Iterator[FleetDiff]:
    for key in FleetDiff.__struct_fields__:
        rest = iter(getattr(change, key))
        while part := tuple(islice(rest, size)):
            yield msgspec.structs.replace(FleetDiff(), **{key: part})
