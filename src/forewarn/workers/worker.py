"""One worker: a replica that follows the leader, and the metadata plane that answers from it."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from contextlib import suppress

from forewarn.config.values import ListenAddress
from forewarn.core.commands import Approve, Enrol
from forewarn.core.errors import BadInput, ForewarnError
from forewarn.core.model import Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.journal.port import SupportsFollowers
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.document_cache import DocumentCache
from forewarn.metadata.identity import Identity
from forewarn.metadata.request import AllowedHosts
from forewarn.metadata.request_records import RequestRecords
from forewarn.node.large_change import LargeChangeSizes
from forewarn.node.replica import Replica
from forewarn.randomness import new_id
from forewarn.wire.approval import Approval
from forewarn.workers.channel import MessageChannel
from forewarn.workers.environment import WorkerEnvironment, WorkerListener
from forewarn.workers.follower import CannotFollow, Follower
from forewarn.workers.leader_link import LeaderLink
from forewarn.workers.messages import (
    Answer,
    Applied,
    Busy,
    Configure,
    Entries,
    Listen,
    Listening,
    Message,
    ReadTo,
    Ready,
    Show,
    StartFailed,
    Stop,
    WorkerSettings,
    decode_for_worker,
)
from forewarn.workers.metadata_service import WorkerMetadataService
from forewarn.workers.request_reports import RequestReports
from forewarn.workers.shared_limits import SharedConnectionRegistry, SharedRates
from forewarn.workers.shared_memory import SharedMemory

log = logging.getLogger(__name__)


class Worker:
    """Runs from the first message of the leader until it is stopped, or has been without a leader too long."""

    def __init__(
        self,
        number: int,
        memory: SharedMemory,
        environment: WorkerEnvironment,
        sizes: LargeChangeSizes | None = None,
        *,
        report_every: float = 1.0,
    ) -> None:
        """``report_every``: seconds between two reports to the leader."""
        self._number = number
        self._memory = memory
        self._environment = environment
        self._sizes = sizes
        self._report_every = report_every
        self._clock = environment.clock
        self.channel: MessageChannel | None = None
        """Set before the first message is received."""
        self._settings: WorkerSettings | None = None
        self._replica: Replica | None = None
        self._follower: Follower | None = None
        self._listener: WorkerListener | None = None
        self._link = LeaderLink(self._send, self._clock.seconds, lambda: memory.leader_alive_at)
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def lose_leader(self) -> None:
        """Note that the leader's process has ended."""
        if not self._stopping.is_set():
            log.warning("the leader has ended; VMs are answered from what is known")
        self._link.lose()
        if self._listener is None:
            self.stop()

    def terminate(self) -> None:
        """Stop where there is no leader to say so: a service manager signals all processes at once."""
        if self._link.is_lost:
            self.stop()

    def stop(self) -> None:
        """Finish the answers that are owed, and end."""
        self._stopping.set()

    async def run(self) -> None:
        """Return when the worker has stopped."""
        was_over = False
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._report_every)
            timeout = self._settings.leader_timeout if self._settings else float("inf")
            is_over = self._link.is_lost and self._link.age >= timeout
            if is_over and was_over:
                log.warning("there has been no leader for too long; this worker ends")
                break
            was_over = is_over
            self._link.give_up()
            self._report()
            self._environment.tell_leader_age(None if self._link.is_there else self._link.age)
        if self._listener:
            await self._listener.stop()
        self._report()
        if self._follower:
            await self._follower.close()
        self._environment.tell_leader_age(None)
        if self.channel:
            self.channel.close()

    def receive(self, body: bytes) -> None:
        """Take a message of the leader."""
        follower = self._follower
        match decode_for_worker(body):
            case Configure(settings=settings):
                self._configure(settings)
            case Entries(entries=entries) if follower:
                follower.take(entries)
            case ReadTo(revision=revision) if follower:
                follower.read_to(revision)
            case Show() if follower:
                follower.show()
            case Answer() as answer if follower:
                follower.catch_up()  # who asked is to see what came of it
                self._link.take(answer)
            case Listen():
                self._do(self._listen())
            case Stop():
                self.stop()

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """End where the worker fell behind in the middle of a callback; report any other mistake as usual."""
        if isinstance(error := context.get("exception"), CannotFollow):
            self._environment.end(error)
        else:
            loop.default_exception_handler(context)

    def _configure(self, settings: WorkerSettings) -> None:
        is_first, self._settings = self._settings is None, settings
        self._environment.configure(settings)
        if is_first:
            self._do(self._load(settings))
        elif self._replica:
            self._service.set_limits(settings.limits)
            self._registry.limits = settings.limits
            self._registry.request_cache.set_hosts(AllowedHosts(settings.hosts))
            self._callers.default_vm = settings.default_vm
            if self._listener:
                self._listener.set_ttl(settings.answer_ttl)

    async def _load(self, settings: WorkerSettings) -> None:
        journal = self._environment.open_journal(settings)
        self._replica = replica = Replica(journal)
        clock = self._clock
        identity = Identity(settings.identity)
        self._document_cache = DocumentCache(clock.seconds, identity)
        self._callers = CallerResolver(self._document_cache, settings.default_vm, identity)
        records = RequestRecords(self._document_cache, Rules(), clock.seconds, clock.now)
        self._service = service = WorkerMetadataService(
            self._document_cache,
            self._callers,
            records,
            settings.limits,
            enrol=self._enrol,
            approve=self._approve,
            seconds=clock.seconds,
            now=clock.now,
        )
        memories, number = self._memory.workers, self._number
        hosts = AllowedHosts(settings.hosts)
        self._registry = SharedConnectionRegistry(service, settings.limits, hosts, memories, number)
        self._reports = RequestReports(records, service, lambda: self._link.age)
        replica.subscribe(self._document_cache)
        if not isinstance(journal, SupportsFollowers):
            raise BadInput(f"the journal {settings.journal!r} cannot be followed; use sqlite, or no workers")
        replica.load(await asyncio.to_thread(journal.load_follower))
        follower = Follower(
            replica,
            journal,
            self._memory.shown,
            applied=lambda revision: self._send(Applied(revision)),
            busy=lambda: self._send(Busy()),
            failed=self._environment.end,
            sizes=self._sizes,
        )
        service.follow(follower, self._memory.shown, SharedRates(memories, number), lambda: self._link.is_there)
        self._follower = follower
        self._environment.note_loaded()
        self._send(Ready(replica.revision))

    async def _listen(self) -> None:
        settings, follower = self._settings, self._follower
        if settings is None or follower is None:
            raise AssertionError("the leader waits until the journal is loaded")
        follower.catch_up()
        taps = self._document_cache.vm_entries.keys()
        listener = self._environment.make_listener(self._registry, settings, taps)
        await listener.start()
        self._listener = listener
        addresses = ((ListenAddress(*each.getsockname()[:2]), each) for each in listener.listening)
        self._send(Listening(tuple((str(at), os.fstat(each.fileno()).st_ino) for at, each in addresses)))

    def _approve(self, vm: str, said: Approval) -> "asyncio.Future[None]":
        known = self._replica.fleet.vms.get(vm) if self._replica else None
        by = Caller(CallerKind.VM, vm, known.address if known else "")
        return self._link.submit(Approve(id=new_id(), by=by, events=said.events, postponements=said.postponements))

    def _enrol(self, group: str, vm: str) -> "asyncio.Future[None]":
        return self._link.submit(Enrol(id=new_id(), by=Caller(CallerKind.VM, vm), group=group, vm=vm))

    def _report(self) -> None:
        if not self._link.is_lost:
            self._send(self._reports.next() if self._follower else Busy())

    def _send(self, message: Message) -> None:
        if self.channel:
            self.channel.send(message)

    def _do(self, work: Coroutine[None, None, None]) -> None:
        """Do what takes longer than a message may; a failure ends the worker."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, CannotFollow):
            self._environment.end(error)
            return
        if not isinstance(error, ForewarnError):
            log.error("the worker failed", exc_info=error)
        self._send(StartFailed(str(error) or type(error).__name__))
        self.stop()
