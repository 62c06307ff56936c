"""Reads the network of this machine, and runs commands that change it. Linux only."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from forewarn import child_process
from forewarn.core.errors import Unavailable
from forewarn.files import FileLock, InUse
from forewarn.network.current import CurrentLink, CurrentNetwork, CurrentRoute
from forewarn.network.resources import SystemCommand
from forewarn.network.rules import FAMILIES, RECORD, TABLE

_SYSCTLS = Path("/proc/sys")
_PACKAGES = {"ip": "iproute2", "nft": "nftables", "sysctl": "procps", "unshare": "util-linux"}
_PROC_NET = Path("/proc/net")
_LOCKS = Path("/run")
_TIMEOUT = 60
_GRACE = 1.0
_LARGEST = 64 * 1024 * 1024
"""Bytes that a program may print: lists of routes and rules are long."""
_RETRY_EVERY = 0.05
_EVERYWHERE = {"-4": "0.0.0.0/0", "-6": "::/0"}


def require(*, root: bool) -> None:
    """Raise Unavailable if the network cannot be read, or (``root``) not be changed."""
    if not _SYSCTLS.is_dir():
        raise Unavailable("'forewarn network' works on Linux only")
    for program, package in _PACKAGES.items():
        if shutil.which(program, path=_path()) is None:
            raise Unavailable(f"{program} is not installed; on Debian: apt-get install {package}")
    if not root:
        return
    if os.geteuid() != 0:
        raise Unavailable("reading and changing packet filters needs root; run the command with sudo")
    try:
        _run(SystemCommand(("nft", "list", "tables")))
        _run(SystemCommand(("unshare", "--net", "true")))
    except Unavailable as error:
        raise Unavailable(
            f"cannot read the packet filter: {error}; run the command on the host itself, or give the container"
            " CAP_NET_ADMIN and CAP_SYS_ADMIN"
        ) from None


def read_current(sysctls: Iterable[str] = ()) -> CurrentNetwork:
    """Return the current network; the packet filter only as far as the user may read it."""
    tables = {
        family: found for family in FAMILIES if (found := _try_run("nft", "-j", "list", "table", family, TABLE))
    }
    return CurrentNetwork(
        links=_links(json.loads(_try_run("ip", "-details", "-json", "address", "show") or "[]")),
        routes=tuple(route for version in ("-4", "-6") for route in _routes(version)),
        sysctls={name: value for name in sysctls if (value := _sysctl(name)) is not None},
        record=tuple(_record(json.loads(tables["inet"]))) if "inet" in tables else (),
        tables=tuple(tables),
    )


def all_rules() -> list[dict[str, Any]]:
    """Return every table, chain and rule of the packet filter, including those of other programs."""
    listing = json.loads(_try_run("nft", "-j", "list", "ruleset") or "{}").get("nftables", [])
    return [each for each in listing if "metainfo" not in each]


def rules_in_force(rules: str) -> bool:
    """Return whether the rules are in force, compared with their listing in an empty network namespace."""
    listing = "; ".join(f"nft -j list table {family} {TABLE} || true" for family in FAMILIES)
    desired = _run(SystemCommand(("unshare", "--net", "sh", "-c", f"nft -f - && {{ {listing}; }}"), rules))
    actual = _run(SystemCommand(("sh", "-c", listing)))
    return sorted(map(_plain, desired.splitlines())) == sorted(map(_plain, actual.splitlines()))


def legacy_filter(version: str) -> tuple[list[str], str | None]:
    """Return the tables of iptables-legacy in use, and its filter rules; None if they cannot be read.

    nft does not show them. They apply to this network too.
    """
    try:
        tables = (_PROC_NET / f"{version}_tables_names").read_text("ascii").split()
    except OSError:
        return [], ""
    program = f"{version}tables-legacy-save"
    if not tables or shutil.which(program, path=_path()) is None:
        return tables, None
    return tables, _try_run(program, "-t", "filter") if "filter" in tables else ""


def find_return_devices(source: str, ways: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the device by which the kernel routes to each address, from ``source`` and with a mark."""
    lines = "".join(f"route get {address} from {source} mark {mark}\n" for address, mark in ways)
    shown = _run(SystemCommand(("ip", "-force", "-json", "-batch", "-"), lines), is_sure=False) if lines else ""
    found = [each for line in shown.splitlines() for each in json.loads(line)]
    return {(each["dst"], int(each.get("mark", 0))): each.get("dev", "") for each in found if "dst" in each}


@contextmanager
def locked(on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock for network changes; a second process waits, and ``on_wait`` gets a message about the first."""
    lock = FileLock(_LOCKS / f"forewarn-network-{Path('/proc/self/ns/net').stat().st_ino}.lock")
    deadline = time.monotonic() + _TIMEOUT
    is_reported = False
    while True:
        try:
            lock.acquire()
            break
        except InUse:
            owner = f"'forewarn network' in process {lock.path.read_text('ascii').strip() or 'unknown'}"
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"{owner} has been changing the network for more than {_TIMEOUT} seconds; end it and try again"
                ) from None
            if not is_reported:
                on_wait(f"{owner} is changing the network; waiting for it")
            is_reported = True
            time.sleep(_RETRY_EVERY)
    try:
        yield
    finally:
        lock.release()


def run(command: SystemCommand) -> None:
    """Run a command; raise Unavailable with its error output if it fails."""
    _run(command)


def _run(command: SystemCommand, *, is_sure: bool = True) -> str:
    try:
        done = child_process.run(
            command.words,
            _TIMEOUT,
            _GRACE,
            _GRACE,
            said=command.given.encode(),
            environment={**os.environ, "PATH": _path(), "LC_ALL": "C"},
            most=_LARGEST,
        )
    except OSError as error:
        raise Unavailable(f"'{' '.join(command.words)}' cannot be run: {error}") from None
    if done.cut_off:
        raise Unavailable(f"'{' '.join(command.words)}' {done.problem}")
    if done.exit and is_sure:
        said = " ".join(done.stderr.split()) or f"exit code {done.exit}"
        raise Unavailable(f"'{' '.join(command.words)}' failed: {said}")
    return done.stdout


def _try_run(*words: str) -> str:
    try:
        return _run(SystemCommand(words))
    except Unavailable:
        return ""


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _links(shown: list[dict[str, Any]]) -> dict[str, CurrentLink]:
    return {
        each["ifname"]: CurrentLink(
            "UP" in each["flags"],
            frozenset(f"{known['local']}/{known['prefixlen']}" for known in each["addr_info"] if "local" in known),
            each.get("master", ""),
            each.get("linkinfo", {}).get("info_kind", ""),
            each.get("address", ""),
        )
        for each in shown
        if "ifname" in each
    }


def _routes(version: str) -> Iterable[CurrentRoute]:
    for each in json.loads(_try_run("ip", "-json", version, "route", "show") or "[]"):
        if "dev" in each:
            destination = _EVERYWHERE[version] if each["dst"] == "default" else str(ip_network(each["dst"]))
            yield CurrentRoute(destination, each["dev"], int(each.get("metric", 0)), str(each.get("protocol", "")))


def _record(listing: dict[str, Any]) -> Iterable[str]:
    for each in listing["nftables"]:
        if (rule := each.get("rule")) and rule["chain"] == RECORD and "comment" in rule:
            yield rule["comment"]


def _sysctl(name: str) -> str | None:
    try:
        return (_SYSCTLS / name).read_text("ascii").strip()
    except OSError:
        return None


def _plain(listing: str) -> str:
    """Return a listing without handles and with sorted elements, so that equal rules compare equal."""
    objects = json.loads(listing)["nftables"]
    return json.dumps([_bare(each) for each in objects if "metainfo" not in each], sort_keys=True)


def _bare(node: Any) -> Any:  # noqa: ANN401 - JSON
    match node:
        case dict():
            bare = {key: _bare(value) for key, value in node.items() if key != "handle"}
            for key in ("elem", "set"):
                if isinstance(elements := bare.get(key), list):
                    bare[key] = sorted((each for each in elements if not _is_learnt(each)), key=json.dumps)
            return {key: value for key, value in bare.items() if value != []}
        case list():
            return [_bare(each) for each in node]
        case _:
            return node


def _is_learnt(element: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether an element of a set was added by a packet at run time."""
    return isinstance(element, dict) and "limit" in element.get("elem", {})
