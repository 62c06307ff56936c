"""The kubernetes handler: cordons, marks and drains the VM's node before an event, and restores it afterwards.

    do      cordon ──▶ condition and event on the node ──▶ drain
    undo    uncordon, if the cordon is ours ──▶ condition cleared, event on the node

Each step checks the present state first, so all steps can be repeated. A failure to set the condition or to create
the event does not stop the other steps.
"""

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import msgspec

from forewarn.agent.handler import (
    Direction,
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerResult,
    Task,
)
from forewarn.agent.handlers.kubernetes import nodes
from forewarn.agent.handlers.kubernetes.api import MERGE, STRATEGIC, KubernetesApi
from forewarn.agent.handlers.kubernetes.drain import DrainProgress, Evictions, drain, kill
from forewarn.agent.handlers.kubernetes.errors import (
    ApiForbidden,
    ApiUnable,
    ApiUnreachable,
    ObjectConflict,
    ObjectMissing,
)
from forewarn.agent.handlers.kubernetes.pods import Pod, PodDrainAction, drain_action_of
from forewarn.agent.handlers.kubernetes.settings import KubernetesSettings, access_of, read_settings
from forewarn.agent.handlers.polling import polls, question_timeout
from forewarn.core.errors import BadInput, ForewarnError, Unknown

LONGEST_ANSWER = 5.0
"""Timeout of one request to the API server in seconds."""
AGAIN = timedelta(seconds=1)
COLLISIONS = 5
"""Attempts to patch the node despite concurrent changes."""
FORCE = timedelta(seconds=5)
"""Time reserved before the deadline for deleting pods; at most a fifth of the time left."""
NAMED = 5
"""Pods that one message names."""


class KubernetesHandler:
    """Cordons and drains this VM's node."""

    repeats = True
    shared = True

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._evictions = Evictions()

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        return cls(read_settings(settings))

    def do(self, task: Task) -> HandlerResult:
        return self._until_answered(task, self._get_ready)

    def undo(self, task: Task) -> HandlerResult:
        return self._until_answered(task, self._put_back)

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerNotBegun()

    def close(self) -> None:
        pass

    def _until_answered(self, task: Task, step: Callable[[KubernetesApi, Task], HandlerResult]) -> HandlerResult:
        """Call ``step``, and again while the API server is unreachable: after a boot the network is often late."""
        reason = ""
        for _ in polls(task, AGAIN):
            try:
                with KubernetesApi(
                    access_of(self._settings, os.environ), lambda: question_timeout(task, LONGEST_ANSWER)
                ) as api:
                    return step(api, task)
            except ApiUnreachable as error:
                reason = str(error)
            except ForewarnError as error:
                return HandlerFailed(str(error), final=isinstance(error, BadInput | ApiForbidden | Unknown))
        return HandlerFailed(reason)

    def _get_ready(self, api: KubernetesApi, task: Task) -> HandlerResult:
        node, said = self._find(api, task), []
        if self._settings.cordon:
            node = _change(api, node, lambda node: nodes.cordon(node, task.event.id))
            said.append("cordoned" if node.cordoned_by else "was already cordoned by others")
        said += self._show(api, node, task)
        if self._settings.drain:
            drained = self._drain(api, node.name, task)
            if drained.left and task.stopping.is_set():
                return HandlerFailed(f"the agent stopped with pods on {node.name}: {_list(drained.left)}")
            if drained.left and self._settings.on_deadline == "fail":
                return HandlerFailed(
                    f"the deadline passed with pods on {node.name}: {_list(drained.left)};"
                    " see 'on_deadline' and 'timeout'"
                )
            said += _describe(drained)
        return HandlerDone({"node": node.name, "event": task.event.id}, "; ".join(said))

    def _put_back(self, api: KubernetesApi, task: Task) -> HandlerResult:
        try:
            node = self._find(api, task)
        except Unknown as error:
            return HandlerDone(detail=f"nothing to undo: {error}")
        was_ours, was_shown = bool(node.cordoned_by), node.has(self._settings.condition)
        node = _change(api, node, lambda node: nodes.uncordon(node, task.kept.get("event", task.event.id)))
        if node.cordoned_by:
            return HandlerDone(detail="stays cordoned for another event")
        if not was_ours and not was_shown and not task.kept:
            return HandlerDone(detail="nothing to undo")
        said = "uncordoned" if was_ours else "stays cordoned: the cordon is not ours" if node.is_cordoned else ""
        return HandlerDone(detail="; ".join(filter(None, [said, *self._show(api, node, task)])))

    def _drain(self, api: KubernetesApi, node: str, task: Task) -> DrainProgress:
        def action(pod: Pod) -> PodDrainAction:
            return drain_action_of(
                pod,
                delete_unmanaged=self._settings.delete_unmanaged,
                delete_empty_dir=self._settings.delete_empty_dir,
            )

        if self._settings.on_deadline != "force":
            return drain(api, node, action, self._evictions, task)
        left = max(task.deadline - datetime.now(UTC), timedelta())
        sooner = msgspec.structs.replace(task, deadline=task.deadline - min(left / 5, FORCE))
        drained = drain(api, node, action, self._evictions, sooner)
        if drained.left and not task.stopping.is_set():
            kill(api, node, drained)
        return drained

    def _show(self, api: KubernetesApi, node: nodes.KubernetesNode, task: Task) -> list[str]:
        """Set or clear the condition and create the event on the node; return the failures."""
        now, condition, failed = datetime.now(UTC), self._settings.condition, []
        is_coming = task.direction is Direction.DO
        try:
            if condition and is_coming:
                body = nodes.raise_condition(node, condition, task.event, now)
                api.ask("PATCH", f"{node.path}/status", msgspec.Raw, body, STRATEGIC)
            elif node.has(condition):
                body = nodes.clear_condition(node, condition, now)
                api.ask("PATCH", f"{node.path}/status", msgspec.Raw, body, STRATEGIC)
        except ForewarnError as error:
            failed.append(f"the condition cannot be set: {error}")
        try:
            if self._settings.events:
                body = nodes.report(node.name, task.event, task.direction, now)
                api.ask("POST", f"/api/v1/namespaces/{nodes.NAMESPACE}/events", msgspec.Raw, body)
        except ObjectConflict:
            pass  # it exists already
        except ForewarnError as error:
            failed.append(f"the event on the node cannot be created: {error}")
        return failed

    def _find(self, api: KubernetesApi, task: Task) -> nodes.KubernetesNode:
        given = task.kept.get("node") or self._settings.node or os.environ.get("NODE_NAME", "")
        names = nodes.names_of(given, socket.gethostname(), task.vm)
        for name in names:
            try:
                return api.ask("GET", nodes.path_of(name), nodes.KubernetesNode)
            except ObjectMissing:
                continue
        try:
            known = api.ask("GET", f"{nodes.PATH}?limit=500", nodes.KubernetesNodeList)
        except ApiForbidden:
            known = nodes.KubernetesNodeList()
        raise nodes.unknown(names, [node.name for node in known.items])


def _change(
    api: KubernetesApi,
    node: nodes.KubernetesNode,
    patch_of: Callable[[nodes.KubernetesNode], nodes.JsonObject | None],
) -> nodes.KubernetesNode:
    """Patch a node, with retries after concurrent changes; return the patched node."""
    for _ in range(COLLISIONS):
        patch = patch_of(node)
        if patch is None:
            return node
        try:
            return api.ask("PATCH", node.path, nodes.KubernetesNode, patch, MERGE)
        except ObjectConflict:
            node = api.ask("GET", node.path, nodes.KubernetesNode)
    raise ApiUnable(f"node {node.name} cannot be patched: it was changed concurrently {COLLISIONS} times")


def _describe(drained: DrainProgress) -> list[str]:
    said = [f"pods evicted: {len(drained.evicted)}"]
    if drained.killed:
        said.append(f"killed: {', '.join(sorted(drained.killed))}")
    if drained.left:
        said.append(f"left at the deadline: {_list(drained.left)}")
    if drained.spared:
        said.append(f"left running: {_list(drained.spared)}")
    return said


def _list(pods: dict[str, str]) -> str:
    named = [f"{name} ({why})" for name, why in sorted(pods.items())[:NAMED]]
    more = len(pods) - len(named)
    return ", ".join(named) + (f", and {more} more" if more else "")
