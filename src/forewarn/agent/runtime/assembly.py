"""Builds an agent from its settings, checks its handlers, and runs it."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from forewarn import plugin_loader
from forewarn.agent.decision.actions import DecisionSettings, HandlerTraits
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.handler import Handler
from forewarn.agent.local.address import TOKEN_FILE
from forewarn.agent.local.server import LocalServer
from forewarn.agent.observation.fact_log import log_change
from forewarn.agent.observation.status_server import StatusServer
from forewarn.agent.runtime.handler_runner import close_handler, describe_error
from forewarn.agent.runtime.loop import Agent
from forewarn.agent.runtime.memory_file import MemoryFile
from forewarn.agent.settings import TERM_KEYS, AgentSettings, ConfiguredHandler
from forewarn.client.async_client import AsyncClient
from forewarn.client.changes import Change
from forewarn.clocks import SystemClock
from forewarn.core.errors import BadInput, Unavailable, nearest
from forewarn.files import FileLock, private_directory, restrict_files
from forewarn.signals import end_on_next
from forewarn.systemd_notify import SystemdNotifier

if TYPE_CHECKING:
    from forewarn.agent.handler import HandlerType
import inspect
from collections.abc import Iterator

log = logging.getLogger("forewarn.agent")

_CALLS = {"do": 1, "undo": 1, "outcome_of": 1, "close": 0}
"""The methods, each with the number of its arguments."""
_CLAIMS = ("repeats", "shared")

_GROUP = "forewarn.handlers"
_HANGUP = "SIGHUP is ignored: the agent reads its configuration only at start; restart it to apply changes"


def make_handlers(settings: AgentSettings) -> dict[str, Handler]:
    """Make all configured handlers; raise BadInput with the line of the one that is wrong."""
    return {name: _make(name, configured, settings.state) for name, configured in settings.handlers.items()}


def _make(name: str, configured: ConfiguredHandler, state: Path) -> Handler:
    try:
        made = cast("HandlerType", plugin_loader.load(_GROUP, configured.kind))
    except BadInput as error:
        raise BadInput(f"{configured.places['kind']}: [handlers.{name}]: {error}") from None
    try:
        handler = made.from_settings(configured.settings, state / "handlers" / name)
    except BadInput as error:
        raise BadInput(_placed(str(error), name, configured)) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        raise _broken(name, configured, made, f"cannot be created: {describe_error(error)}") from None
    if found := "; ".join(find_faults(handler)):
        raise _broken(name, configured, made, found)
    return handler


def _broken(name: str, configured: ConfiguredHandler, made: object, fault: str) -> BadInput:
    kind = f"{configured.kind!r} ({place})" if (place := source_location(made)) else f"{configured.kind!r}"
    return BadInput(
        f"{configured.places['kind']}: [handlers.{name}]: handler {kind} {fault};"
        " correct it (docs/how-to/write-a-handler.md lists the required members), or configure another handler"
    )


def close_handlers(handlers: Mapping[str, Handler]) -> None:
    """Close handlers that no agent runs; failures are logged."""
    for name, handler in handlers.items():
        close_handler(name, handler)


def _placed(said: str, name: str, configured: ConfiguredHandler) -> str:
    """Prefix an error of a handler with its line in the file: that of the setting which the message names, if any."""
    key = next((key for key in configured.settings if f"{key!r}" in said.partition(" (it has ")[0]), "")
    place = configured.places.get(key, configured.place)
    near = nearest(key, TERM_KEYS) if key and "did you mean" not in said else ""
    return f"{place}: [handlers.{name}]: {said}{near}"


def terms_of(configured: ConfiguredHandler, handler: Handler) -> HandlerTerms:
    """Return how a handler is called: by default, a failure of one that only notifies holds no approval."""
    if "on_failure" in configured.places or getattr(handler, "prepares", True):
        return configured.terms
    return msgspec.structs.replace(configured.terms, on_failure=OnFailure.GO_ON)


def holding_by_default(settings: AgentSettings, handlers: Mapping[str, Handler]) -> list[str]:
    """Return the handlers that hold the approval on failure by default, without on_failure in the file."""
    return [
        name
        for name, configured in settings.handlers.items()
        if "on_failure" not in configured.places and terms_of(configured, handlers[name]).on_failure is OnFailure.HOLD
    ]


def decision_settings_of(settings: AgentSettings, handlers: dict[str, Handler]) -> DecisionSettings:
    return DecisionSettings(
        vm=settings.name,
        rules=settings.rules,
        terms={name: terms_of(configured, handlers[name]) for name, configured in settings.handlers.items()},
        traits={name: HandlerTraits(handler.repeats, handler.shared) for name, handler in handlers.items()},
        approver=settings.approver,
        takeover=settings.takeover,
    )


def run(
    settings: AgentSettings,
    ready: Callable[[Agent], None] = lambda _: None,
    make_agent: Callable[..., Agent] = Agent,
) -> None:
    """Run an agent until it is stopped; ``ready`` is called when it has started."""
    handlers = make_handlers(settings)
    lock = _lock(settings)
    # A dry run stores nothing: the real agent must not assume that handlers were called.
    memory = MemoryFile(settings.state / "memory", is_kept=not settings.dry_run)
    try:
        memory.open()
        if memory.torn:
            log.info("the memory file ended in an incomplete line", extra={"fields": {"reason": memory.torn}})
        if memory.damage:
            log.error("the memory file is damaged", extra={"fields": {"reason": memory.damage}})
        asyncio.run(_run(settings, handlers, memory, ready, make_agent))
    finally:
        memory.close()
        if lock:
            lock.release()


def _lock(settings: AgentSettings) -> FileLock | None:
    if settings.dry_run:
        return None
    lock = FileLock(settings.state / "lock")
    try:
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (isinstance(settings.socket, Path) and settings.state in settings.socket.parents):
            private_directory(settings.state)  # the socket in it must stay reachable for its group
        restrict_files(path for path in settings.state.iterdir() if path.is_file())
        lock.acquire()
    except OSError as error:
        raise Unavailable(
            f"the agent cannot write its memory in {settings.state}: {_why(error)};"
            " run it as a user with write access, or set state to another directory"
        ) from None
    return lock


def _why(error: OSError) -> str:
    return "it is a file" if isinstance(error, FileExistsError) else error.strerror or str(error)


async def _run(
    settings: AgentSettings,
    handlers: dict[str, Handler],
    memory: MemoryFile,
    ready: Callable[[Agent], None],
    make_agent: Callable[..., Agent],
) -> None:
    clock = SystemClock()
    client = AsyncClient(settings.url or None)
    agent = make_agent(
        decision_settings_of(settings, handlers),
        handlers,
        client,
        memory,
        clock,
        coordinator=settings.coordinator,
        dry_run=settings.dry_run,
    )
    async with AsyncExitStack() as stack:
        if settings.socket:
            local_server = LocalServer(
                settings.socket,
                token_file=settings.state / TOKEN_FILE,
                status=agent.status,
                present=agent.present,
                concerns=agent.concerns_me,
                approved=agent.is_approved,
                held=agent.hold,
                ready=agent.release,
                clock=agent.clock,
            )
            await local_server.open()
            stack.push_async_callback(local_server.close)
            agent.on_change = partial(_publish_change, local_server)
            agent.count_listeners = lambda: local_server.count
        if settings.http:
            status_server = StatusServer(settings.http, agent.status, memory.memory.counters, handlers)
            await status_server.open()
            stack.push_async_callback(status_server.close)
        notifier = SystemdNotifier.from_environment(os.environ)
        stack.callback(notifier.stopping)
        _stop_on_signals(agent, notifier)
        notifier.ready(f"asks {settings.url or 'the endpoint it finds'}")
        ready(agent)
        await agent.run()


def _publish_change(local_server: LocalServer, change: Change) -> None:
    log_change(change)
    local_server.publish(change)


def _stop_on_signals(agent: Agent, notifier: SystemdNotifier) -> None:
    def stop() -> None:
        end_on_next()
        notifier.stopping()
        agent.stop()

    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError, RuntimeError):  # Windows, or not the main thread
        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_signal_handler(signal.SIGINT, stop)
        loop.add_signal_handler(signal.SIGHUP, log.warning, _HANGUP)


def find_faults(handler: object) -> Iterator[str]:
    """Yield what a handler lacks, as parts of one sentence."""
    for name, count in _CALLS.items():
        call = _member(handler, name)
        if call is None:
            yield f"has no {_shown(name)}"
        elif not callable(call):
            yield f"{name} is not a method"
        elif inspect.iscoroutinefunction(call):
            yield f"{name} is a coroutine; handlers are called in threads, write def without async"
        elif not _takes(call, count):
            yield f"{name} cannot be called as {_shown(name)}"
    for name in _CLAIMS:
        value = _member(handler, name)
        if not isinstance(value, bool):
            yield f"{name} must be True or False" if value is not None else f"has no {name} = True or False"


def source_location(kind: object) -> str:
    """Return where a handler's class or function is defined, such as ``health.py:12``; empty where unknown."""
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _member(handler: object, name: str) -> object:
    try:
        return getattr(handler, name, None)
    except Exception:  # noqa: BLE001 - a property of a stranger's class
        return None


def _takes(call: object, count: int) -> bool:
    try:
        inspect.signature(call).bind(*range(count))  # type: ignore[arg-type]
    except TypeError:
        return False
    except ValueError:
        return True  # what is written in C does not always tell
    return True


def _shown(name: str) -> str:
    return f"{name}({'task' if _CALLS[name] else ''})"
