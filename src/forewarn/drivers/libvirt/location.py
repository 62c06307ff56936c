"""Finds the host of a machine: queries every configured host for its UUID; there is one result, or an error.

    it runs on one host                        that host; a copy on another host is paused or off, and stale
    it runs on two hosts                       LibvirtProblem
    it is paused on one host                   that host, unless a migration paused it and a host does not answer
    it is off, and one host defines it         that host
    it is off, and several hosts define it     the recorded host, if it is one of them; else LibvirtProblem
    a host does not answer, none of the above  LibvirtUnreachable, which names that host

A machine that is off is never started before every host has answered that it is not active there.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TypeVar

import libvirt
import msgspec

from forewarn.core.errors import BadInput
from forewarn.drivers.libvirt.hosts import LibvirtHosts
from forewarn.drivers.libvirt.problems import DomainAbsent, LibvirtProblem, LibvirtUnreachable, problem_of

HostReply = TypeVar("HostReply")

ANSWER_TIMEOUT = 20.0
"""Seconds after which a host that does not answer a query counts as silent."""
_RUNNING = {libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED, libvirt.VIR_DOMAIN_NOSTATE}


class ActiveElsewhere(LibvirtProblem):
    """The machine is active on another host, so it must not be started here."""


class DomainState(msgspec.Struct, frozen=True):
    """State of a machine at the time of the query."""

    state: int = -1
    reason: int = 0
    id: int = -1
    """A new id for each start of its process; -1 while there is none."""

    @property
    def is_defined(self) -> bool:
        return self.state != -1

    @property
    def runs(self) -> bool:
        return self.state in _RUNNING

    @property
    def is_paused(self) -> bool:
        return self.state == libvirt.VIR_DOMAIN_PAUSED

    @property
    def is_active(self) -> bool:
        """Whether it has a process."""
        return self.id != -1

    @property
    def is_migrating(self) -> bool:
        """Whether a migration paused it: it runs on the other host already, or does not run there yet."""
        return self.is_paused and self.reason == libvirt.VIR_DOMAIN_PAUSED_MIGRATION


class DomainCopy(msgspec.Struct, frozen=True):
    """A machine as one host has it."""

    host: str
    uuid: str
    state: DomainState


class LocationSurvey(msgspec.Struct, frozen=True):
    """Answers of the hosts about one machine."""

    name: str
    copies: tuple[DomainCopy, ...] = ()
    silent: dict[str, str] = {}
    """Hosts that did not answer, with the reason."""

    @property
    def active(self) -> list[DomainCopy]:
        return [copy for copy in self.copies if copy.state.is_active]

    def require_answers(self) -> None:
        """Raise LibvirtUnreachable if a host did not answer."""
        if self.silent:
            off = f"{self.name} is off on {_listed(copy.host for copy in self.copies)}, " if self.copies else ""
            why = f"{off}and may run on {_listed(self.silent)}: " if off else ""
            raise LibvirtUnreachable(f"{why}{'; '.join(self.silent.values())}")

    def place(self, recorded: str) -> DomainCopy | None:
        """Return the authoritative copy; None if every host answered and none has the machine."""
        running = [copy for copy in self.copies if copy.state.runs]
        if len(running) > 1:
            raise LibvirtProblem(
                f"{self.name} runs on {_listed(copy.host for copy in running)} at once; stop it with 'virsh destroy' "
                "where it must not run, and undefine it there"
            )
        if running:
            return running[0]
        active = self.active
        if len(active) == 1 and not active[0].state.is_migrating:
            return active[0]
        self.require_answers()
        if len(active) > 1:
            raise LibvirtProblem(
                f"{self.name} is paused on {_listed(copy.host for copy in active)}; resume it with 'virsh resume' on "
                "one of them, and destroy and undefine it on the other"
            )
        if active:
            return active[0]
        here = [copy for copy in self.copies if copy.host == recorded] or list(self.copies)
        if len(here) > 1:
            raise LibvirtProblem(
                f"{self.name} is off and defined on {_listed(copy.host for copy in here)}; undefine it with "
                "'virsh undefine' on all of them but one"
            )
        return here[0] if here else None


def survey_hosts(hosts: LibvirtHosts, name: str, uuid: str = "", recorded: str = "") -> LocationSurvey:
    """Query every host for a machine by UUID; by name if no UUID is known.

    The name is tried on the recorded host first, because two hosts may each have a machine of that name.
    """
    first = [recorded] if hosts.knows(recorded) else []
    here = _ask(hosts, first, name, uuid)
    uuid = uuid or next((copy.uuid for copy in here.copies), "")
    rest = _ask(hosts, [host for host in hosts.names(recorded) if host not in first], name, uuid)
    copies, silent = (*here.copies, *rest.copies), here.silent | rest.silent
    if recorded and not first:
        silent[recorded] = _no_uri(hosts, recorded)
    elif first and uuid and not copies and not silent:
        # It was redefined on its host with another UUID; that one may be elsewhere too.
        copies = _ask(hosts, first, name, "").copies
        others = [host for host in hosts.names(recorded) if host not in first]
        for copy in copies:
            rest = _ask(hosts, others, name, copy.uuid)
            copies, silent = (*copies, *rest.copies), rest.silent
    if len({copy.uuid for copy in copies}) > 1:
        raise LibvirtProblem(
            f"{_listed(copy.host for copy in copies)} each have a different machine named {name}; "
            f"give VM {name} its UUID as vm_id"
        )
    return LocationSurvey(name, copies, silent)


def _no_uri(hosts: LibvirtHosts, host: str) -> str:
    try:
        return hosts.uri(host)
    except BadInput as error:
        return str(error)


def find(hosts: LibvirtHosts, name: str, uuid: str, recorded: str) -> DomainCopy | None:
    """Return the location of a machine; None if no host has it. Raise LibvirtProblem if it is ambiguous."""
    # Most machines run on their recorded host; then no other host has to answer.
    with suppress(LibvirtProblem, BadInput):
        here = _copy(hosts, recorded, name, uuid)
        if here and here.state.runs:
            return here
    return survey_hosts(hosts, name, uuid, recorded).place(recorded)


def require_off(hosts: LibvirtHosts, name: str, uuid: str, host: str) -> None:
    """Raise unless every host answers that a machine is not active, so that it may be started on ``host``."""
    found = survey_hosts(hosts, name, uuid, host)
    others = [copy.host for copy in found.active if copy.host != host]
    if others:
        raise ActiveElsewhere(f"{name} is active on {_listed(others)}, so it was not started on {host}")
    found.require_answers()


def silent_hosts(hosts: LibvirtHosts) -> dict[str, str]:
    """Return the hosts that do not answer, with the reason."""
    return _ask(hosts, hosts.names(), "", "").silent


class HostListings(msgspec.Struct, frozen=True):
    """All machines of all hosts."""

    machines: dict[str, dict[str, DomainCopy]]
    """By host, then by UUID."""
    names: dict[str, dict[str, str]]
    """UUIDs by host, then by name."""
    silent: dict[str, str]

    def survey(self, name: str, uuid: str, recorded: str) -> LocationSurvey:
        """Return the answers about one machine, as ``survey_hosts`` does."""
        uuid = uuid or self.names.get(recorded, {}).get(name, "")
        if not any(uuid in machines for machines in self.machines.values()):
            found = {named[name] for named in self.names.values() if name in named}
            uuid = self.names.get(recorded, {}).get(name, "") or (found.pop() if not uuid and len(found) == 1 else "")
        copies = tuple(machines[uuid] for machines in self.machines.values() if uuid in machines)
        return LocationSurvey(name, copies, self.silent)


def list_all(hosts: LibvirtHosts, names: Iterable[str]) -> HostListings:
    """List the machines of hosts concurrently."""
    machines: dict[str, dict[str, DomainCopy]] = {}
    named: dict[str, dict[str, str]] = {}
    silent: dict[str, str] = {}
    asked = _query_concurrently(names, lambda host: _list(hosts, host))
    for host, answer in asked.items():
        if isinstance(answer, str):
            silent[host] = answer
        else:
            machines[host] = {copy.uuid: copy for copy in answer.values()}
            named[host] = {name: copy.uuid for name, copy in answer.items()}
    return HostListings(machines, named, silent)


def _list(hosts: LibvirtHosts, host: str) -> dict[str, DomainCopy]:
    connection = hosts.connection(host)
    try:
        domains = connection.listAllDomains()
        return {domain.name(): DomainCopy(host, domain.UUIDString(), read_state(domain)) for domain in domains}
    except libvirt.libvirtError as error:
        raise problem_of(host, error, "its machines") from None


def _ask(hosts: LibvirtHosts, names: Iterable[str], name: str, uuid: str) -> LocationSurvey:
    asked = _query_concurrently(names, lambda host: _copy(hosts, host, name, uuid))
    copies = tuple(answer for answer in asked.values() if isinstance(answer, DomainCopy))
    return LocationSurvey(name, copies, {host: answer for host, answer in asked.items() if isinstance(answer, str)})


def _query_concurrently(names: Iterable[str], ask: Callable[[str], HostReply]) -> dict[str, HostReply | str]:
    """Query hosts concurrently; for a host that fails or times out return the reason."""
    asked: dict[str, Future[HostReply]] = {}
    for host in names:
        asked[host] = Future()
        # Daemon threads, because libvirt may take minutes to time out.
        work = threading.Thread(target=_answer, args=(asked[host], ask, host), name=f"libvirt-{host}", daemon=True)
        work.start()
    wait(asked.values(), ANSWER_TIMEOUT)
    found: dict[str, HostReply | str] = {}
    for host, answer in asked.items():
        try:
            found[host] = answer.result(0)
        except TimeoutError:
            found[host] = f"libvirt on {host} did not answer within {ANSWER_TIMEOUT:g} s"
        except LibvirtProblem as error:
            found[host] = str(error)
    return found


def _answer(answer: "Future[HostReply]", ask: Callable[[str], HostReply], host: str) -> None:
    try:
        answer.set_result(ask(host))
    except BaseException as error:  # noqa: BLE001 it is raised again where the answer is awaited
        answer.set_exception(error)


def _copy(hosts: LibvirtHosts, host: str, name: str, uuid: str) -> DomainCopy | None:
    """Return a machine as a host has it, by UUID only if that is known."""
    connection = hosts.connection(host)
    if not name and not uuid:
        return None
    try:
        domain = connection.lookupByUUIDString(uuid) if uuid else connection.lookupByName(name)
        return DomainCopy(host, domain.UUIDString(), read_state(domain))
    except libvirt.libvirtError as error:
        problem = problem_of(host, error, f"{name}: look")
        if isinstance(problem, DomainAbsent):
            return None
        raise problem from None


def read_state(domain: libvirt.virDomain) -> DomainState:
    state, reason = map(int, domain.state())
    return DomainState(state, reason, int(domain.ID()))


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
