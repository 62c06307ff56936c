"""The leader's workers: started together, followed, replaced when they end, and stopped."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Any

from forewarn import __version__
from forewarn.clocks import Timer
from forewarn.control.bodies import WorkerView
from forewarn.core.errors import Unavailable
from forewarn.metadata.request_records import RequestRecords
from forewarn.metadata.service import make_delays
from forewarn.node.backoff import Backoff
from forewarn.node.histogram import Histogram
from forewarn.node.node import Node
from forewarn.wire.versions import API_VERSIONS
from forewarn.workers.messages import (
    Applied,
    Busy,
    Configure,
    Listen,
    Listening,
    OtherRelease,
    Ready,
    StartFailed,
    Stop,
    Submit,
    WorkerReport,
    WorkerSettings,
    answer_of,
    decode_for_leader,
)
from forewarn.workers.process import StartWorker, WorkerProcess
from forewarn.workers.publication import Publication
from forewarn.workers.shared_memory import SharedMemory

log = logging.getLogger(__name__)

_GRACE = timedelta(seconds=8)
"""How long workers may take to finish their answers when the service stops."""
_PROVEN = timedelta(seconds=10)
"""A worker that has answered for so long was not started in vain."""


_LATE = 1.0
"""Seconds by which a sign of life of the leader may be late: later, the leader itself was stopped, or very busy."""
_LOADING_FACTOR = 12
"""How many times as long a worker may be silent that starts, or puts a large fleet into memory."""
_STUCK = 5.0
"""Seconds after which it is logged that a killed worker does not end."""
_TOPIC = "workers"
_UPGRADED = "upgraded"
_START_ATTEMPTS = 3
"""How often a worker may end by itself before the start of the service has failed."""


class WorkerState(StrEnum):
    """How far a worker is."""

    DOWN = "down"
    LOADING = "loading"
    JOINED = "joined"
    """It follows the commits, and does not answer yet."""
    LISTENING = "listening"


class _Worker:
    """One place in the pool, and the process that fills it at present."""

    def __init__(self, number: int, seconds: Callable[[], float]) -> None:
        self.number = number
        self.process: WorkerProcess | None = None
        self.state = WorkerState.DOWN
        self.known = 0
        self.loaded = 0
        """The revision that it loaded: it may have read more than is shown."""
        self.target = 0
        """What it must know before it answers."""
        self.is_asked_to_listen = False
        self.addresses: tuple[tuple[str, int], ...] = ()
        self.report = WorkerReport()
        self.started_at = 0.0
        self.heard_at = 0.0
        """When it last sent a message."""
        self.restarts = 0
        self.reason = ""
        """Why it was killed, or could not start."""
        self.generation = 0
        """Counts its processes: what one of them said last may arrive after its end."""
        self.has_refused = False
        """Whether it said that it cannot start."""
        self.backoff = Backoff(seconds)
        self.timer: Timer | None = None
        self.pid = 0

    def send_encoded(self, body: bytes) -> None:
        if self.process:
            self.process.channel.send_encoded(body)

    def kill(self, reason: str) -> None:
        self.reason = reason
        if self.process:
            self.process.kill()


class WorkerPool:
    """Keeps a number of workers running. It takes the place of the listener in the leader's process."""

    def __init__(
        self,
        node: Node,
        records: RequestRecords,
        memory: SharedMemory,
        settings: WorkerSettings,
        start: StartWorker,
        *,
        end_others: Callable[[Callable[[int], bool]], Awaitable[None]],
        time_limit: float = 1.0,
        alive_every: float = 0.5,
        silence_limit: float = 5.0,
    ) -> None:
        """``end_others`` ends the workers of an earlier leader, except the processes to keep.

        ``alive_every``: seconds between two signs of life of the leader. ``silence_limit``: seconds after which a
        worker is killed that reports nothing.
        """
        self.port = settings.port
        clock = node.clock
        self.publication = Publication(memory.shown, clock, node.replica.revision, time_limit)
        self.publication.on_shown = self._admit_all
        self._node = node
        self._records = records
        self._memory = memory
        self._settings = settings
        self._start = start
        self._end_others = end_others
        self._alive_every = timedelta(seconds=alive_every)
        self._silence_limit = silence_limit
        self._clock = clock
        self._workers = [_Worker(number, clock.seconds) for number in range(len(memory.workers))]
        self._earlier_documents = [[0, 0] for _ in API_VERSIONS]
        """What workers counted that have ended."""
        self._earlier_refusals: Counter[int] = Counter()
        self._earlier_delays = make_delays()
        self._is_open = False
        """Whether workers may answer: those of an earlier leader have ended."""
        self._is_stopping = False
        self._has_changed = asyncio.Event()
        self._starting: set[asyncio.Task[None]] = set()
        self._alive: Timer | None = None

    async def prepare(self) -> None:
        """Start all workers, and end those of an earlier leader: they would show less than this one does.

        Call it before anything is done to machines. Repeating it does nothing.
        """
        if self._alive:
            return
        self._show_life()
        for worker in self._workers:
            self._spawn(worker)
        await self._until(WorkerState.JOINED)
        await self._end_others(self._is_own)

    async def start(self) -> None:
        """Let all workers answer; return when each of them does."""
        await self.prepare()
        self._is_open = True
        self._admit_all()
        await self._until(WorkerState.LISTENING)

    async def stop(self) -> None:
        """Let the workers finish the answers that they owe, and wait for their end."""
        self._is_stopping = True
        for worker in self._workers:
            if worker.timer:
                worker.timer.cancel()
            if worker.process:
                worker.process.channel.send(Stop())
        impatience = self._clock.call_later(_GRACE, self._kill_all)
        while self._starting or any(worker.process for worker in self._workers):
            self._has_changed.clear()
            await self._has_changed.wait()
        impatience.cancel()
        if self._alive:
            self._alive.cancel()

    def configure(self, settings: WorkerSettings) -> None:
        """Pass changed settings on to every worker."""
        self._settings = settings
        for worker in self._workers:
            if worker.process:
                worker.process.channel.send(Configure(settings))

    def views(self) -> tuple[WorkerView, ...]:
        now = self._clock.seconds()
        return tuple(
            WorkerView(
                number=worker.number + 1,
                pid=worker.pid,
                state=worker.state.value,
                revision=worker.known,
                connections=self._memory.workers[worker.number].connections,
                long_polls=worker.report.long_polls,
                age=now - worker.started_at if worker.process else 0.0,
                silence=now - worker.heard_at if worker.process else 0.0,
                leader_age=worker.report.leader_age,
                restarts=worker.restarts,
            )
            for worker in self._workers
        )

    @property
    def connections(self) -> int:
        """Open connections of all workers."""
        return sum(each.connections for each in self._memory.workers)

    @property
    def addresses(self) -> Iterator[tuple[str, int]]:
        """Address and inode of each socket that a worker listens on."""
        return (address for worker in self._workers for address in worker.addresses)

    def documents(self) -> Iterator[tuple[str, int, int]]:
        """Yield the number of documents served by all workers, by api-version and status."""
        for at, version in enumerate(API_VERSIONS):
            served, unchanged = self._earlier_documents[at]
            for worker in self._workers:
                if worker.report.documents:
                    served += worker.report.documents[at][0]
                    unchanged += worker.report.documents[at][1]
            yield version.name, 200, served
            yield version.name, 304, unchanged

    def refusals(self) -> Counter[int]:
        """Return the number of refused requests of all workers, by status."""
        total = self._earlier_refusals.copy()
        for worker in self._workers:
            total.update(worker.report.refusals)
        return total

    def delays(self) -> Histogram:
        """Return how long requests waited in all workers."""
        total = make_delays()
        for counts in (self._earlier_delays.counts, *(worker.report.delays for worker in self._workers)):
            if counts:
                total.add_counts(counts)
        return total

    def _is_own(self, pid: int) -> bool:
        return any(worker.pid == pid for worker in self._workers if worker.process)

    async def _until(self, state: WorkerState) -> None:
        """Return when every worker has come as far; raise Unavailable where one cannot start."""
        order = list(WorkerState)
        while any(order.index(worker.state) < order.index(state) for worker in self._workers):
            for worker in self._workers:
                if worker.has_refused or worker.restarts > _START_ATTEMPTS:
                    raise Unavailable(f"worker {worker.number + 1} cannot start: {worker.backoff.reason}")
            self._has_changed.clear()
            await self._has_changed.wait()

    def _show_life(self) -> None:
        before, now = self._memory.leader_alive_at, self._clock.seconds()
        self._memory.leader_alive_at = now
        self._alive = self._clock.call_later(self._alive_every, self._show_life)
        is_late = now - before > self._alive_every.total_seconds() + _LATE
        for worker in self._workers:
            if is_late:
                worker.heard_at = now  # what it said meanwhile is not read yet
            elif worker.process and now - worker.heard_at >= (limit := self._longest_silence(worker)):
                worker.kill(f"it was silent for {limit:g} s")
        self._tell_stuck()

    def _longest_silence(self, worker: _Worker) -> float:
        is_loading = worker.state is WorkerState.LOADING
        return self._silence_limit * (_LOADING_FACTOR if is_loading else 1)

    def _tell_stuck(self) -> None:
        if self.stuck_for < _STUCK:
            self._node.warnings.pop(_TOPIC, None)
            return
        pids = ", ".join(str(worker.pid) for worker in self._workers if worker.process and worker.reason)
        self._node.warnings[_TOPIC] = (
            f"commands wait until a worker ends that was killed {self.stuck_for:.0f} s ago (process {pids}); a disk"
            " or file system that does not answer may keep it: mend that, or restart the machine"
        )

    @property
    def stuck_for(self) -> float:
        """Seconds for which a commit has waited for a killed worker that does not end."""
        return self.publication.stuck_for

    def _spawn(self, worker: _Worker) -> None:
        worker.timer = None
        if not self._is_stopping:
            task = asyncio.create_task(self._start_process(worker))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start_process(self, worker: _Worker) -> None:
        worker.state, worker.reason, worker.is_asked_to_listen = WorkerState.LOADING, "", False
        worker.started_at = worker.heard_at = self._clock.seconds()
        worker.generation = generation = worker.generation + 1
        try:
            worker.process = await self._start(
                worker.number,
                lambda body: self._receive(worker, body) if worker.generation == generation else None,
                lambda reason: self._note_end(worker, reason),
            )
        except OSError as error:
            self._note_end(worker, f"was not started: {error.strerror or error}")
            return
        worker.pid = worker.process.pid
        worker.process.channel.send(Configure(self._settings))
        if self._is_stopping:
            worker.process.channel.send(Stop())

    def _receive(self, worker: _Worker, body: bytes) -> None:
        worker.heard_at = self._clock.seconds()
        match decode_for_leader(body):
            case Submit(id=id_, command=command):
                process = worker.process
                reply = self._node.writer.begin(command)
                reply.add_done_callback(lambda done: self._answer(worker, process, id_, done))
            case Applied(revision=revision):
                worker.known = revision
                self.publication.note_applied(worker)
                self._admit(worker)
            case Busy():
                self.publication.note_busy(worker)
            case WorkerReport() as report:
                worker.report = report
                self._records.add_fetches(report.fetches)
                for asked in report.asked:
                    self._records.note_asked(asked.group, asked.seconds, asked.vm)
            case Ready(revision=revision):
                worker.known = worker.loaded = revision
                worker.target = self.publication.revision
                worker.state = WorkerState.JOINED
                self.publication.join(worker)
                self._admit(worker)
                self._has_changed.set()
            case Listening(addresses=addresses):
                worker.addresses = addresses
                worker.state = WorkerState.LISTENING
                worker.timer = self._clock.call_later(_PROVEN, worker.backoff.succeed)
                self._has_changed.set()
            case StartFailed(reason=reason):
                worker.reason = reason
                worker.has_refused = True
            case OtherRelease(release=release):
                worker.reason = f"it is of release {release}, and its leader of {__version__}"
                worker.has_refused = True
                self._node.warnings[_UPGRADED] = (
                    f"workers that end are not replaced: release {release} was installed, and this process is of"
                    f" {__version__}; restart the service"
                )

    def _answer(self, worker: _Worker, process: WorkerProcess | None, id_: int, done: "asyncio.Future[Any]") -> None:
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if process and process is worker.process:  # its successor has given the same id to another command
            process.channel.send(answer_of(id_, error))

    def _admit_all(self) -> None:
        for worker in self._workers:
            self._admit(worker)

    def _admit(self, worker: _Worker) -> None:
        """Let a worker answer that holds everything that may be shown, and nothing else."""
        if (
            self._is_open
            and worker.process
            and worker.state is WorkerState.JOINED
            and not worker.is_asked_to_listen
            and worker.known >= worker.target
            and self.publication.shown >= worker.loaded
        ):
            worker.is_asked_to_listen = True
            worker.process.channel.send(Listen())

    def _note_end(self, worker: _Worker, how: str) -> None:
        worker.process, worker.state, worker.addresses = None, WorkerState.DOWN, ()
        worker.generation += 1
        if worker.timer:
            worker.timer.cancel()
        self._keep_counters(worker)
        self._memory.workers[worker.number].clear()
        self.publication.remove(worker)
        if not self._is_stopping:
            worker.restarts += 1
            worker.backoff.fail(worker.reason or how)
            fields = {"worker": worker.number + 1, "pid": worker.pid, "how": how, "why": worker.reason}
            if _UPGRADED in self._node.warnings:
                log.error("a worker ended and is not replaced: restart the service", extra={"fields": fields})
            else:
                log.warning("a worker ended and is replaced", extra={"fields": fields})
                delay = timedelta(seconds=worker.backoff.remaining)
                worker.timer = self._clock.call_later(delay, lambda: self._spawn(worker))
        self._has_changed.set()

    def _keep_counters(self, worker: _Worker) -> None:
        for total, (served, unchanged) in zip(self._earlier_documents, worker.report.documents, strict=False):
            total[0] += served
            total[1] += unchanged
        self._earlier_refusals.update(worker.report.refusals)
        if worker.report.delays:
            self._earlier_delays.add_counts(worker.report.delays)
        worker.report = WorkerReport()

    def _kill_all(self) -> None:
        for worker in self._workers:
            with suppress(ProcessLookupError):
                worker.kill("it did not stop in time")
