"""The operator's end of the control socket, as the command line uses it."""

import socket
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from uuid import uuid4

import msgspec

from forewarn.control.difference import Difference
from forewarn.control.messages import SLICE, Call, DeclaredFleet, Line, More, Submit, read_error
from forewarn.control.place import reachable, socket_path
from forewarn.control.views import Told
from forewarn.core.commands import Command
from forewarn.core.errors import Unavailable
from forewarn.core.model import Caller, CallerKind

_PATIENCE = 300.0
"""Seconds without a word after which the service counts as gone."""
OPERATOR = Caller(CallerKind.OPERATOR)
"""What stands in a command until the service finds out who sent it."""
_View = TypeVar("_View")
_decode = msgspec.json.Decoder(Line).decode


class Client:
    """Speaks to the service that keeps its data in ``directory``."""

    def __init__(self, directory: Path) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise Unavailable("this system has no unix sockets; run the command where the service runs")
        self._path = socket_path(directory)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_PATIENCE)
        try:
            with reachable(self._path) as name:
                self._socket.connect(name)
        except OSError as error:
            self._socket.close()
            raise self._unreachable(error) from None
        self._file = self._socket.makefile("rwb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, call: Call, view: type[_View]) -> _View:
        """Return the answer to a call."""
        *_, answer = self._answer(call)
        return msgspec.json.decode(answer, type=view)

    def stream(self, call: Call, view: type[_View]) -> Iterator[_View]:
        """Yield the records of a list, as they come."""
        decode = msgspec.json.Decoder(list[view]).decode  # type: ignore[valid-type]
        answer = self._answer(call)
        part = next(answer)
        for following in answer:
            yield from decode(part)
            part = following

    def submit(self, command: Command, change: Difference | None = None) -> Told:
        """Have a command carried out; a change may be of any size."""
        for part in _parts(change) if change else ():
            self._send(More(part))
        return self.ask(Submit(msgspec.Raw(msgspec.json.encode(command))), Told)

    def declared(self, vm: str = "") -> tuple[list[Difference], int]:
        """Return what is declared, in slices, and the number of changes it came from."""
        *parts, changes = self._answer(DeclaredFleet(vm))
        slices = [each for part in parts for each in msgspec.json.decode(part, type=list[Difference])]
        return slices, msgspec.json.decode(changes, type=int)

    def _answer(self, call: Call) -> Iterator[msgspec.Raw]:
        """Yield the parts of the answer, and what is said at its end."""
        self._send(call, flush=True)
        while True:
            line = self._receive()
            if line.error:
                raise read_error(line.error)
            if line.part is not msgspec.UNSET:
                yield line.part
            elif line.ok is not msgspec.UNSET:
                yield line.ok
                return

    def _send(self, call: Call, *, flush: bool = False) -> None:
        try:
            self._file.write(msgspec.json.encode(call) + b"\n")
            if flush:
                self._file.flush()
        except OSError as error:
            raise self._unreachable(error) from None

    def _receive(self) -> Line:
        try:
            line = self._file.readline()
        except TimeoutError:
            raise Unavailable(f"the service at {self._path} has said nothing for {_PATIENCE:.0f} seconds") from None
        except OSError as error:
            raise self._unreachable(error) from None
        if not line.endswith(b"\n"):
            raise Unavailable(
                "the service went away before it answered; what was asked may have been done or not:"
                " look with 'forewarn event list --all'"
            )
        try:
            return _decode(line)
        except msgspec.DecodeError as error:
            raise Unavailable(f"the service at {self._path} gave an answer that makes no sense: {error}") from None

    def _unreachable(self, error: OSError) -> Unavailable:
        directory = self._path.parent
        if isinstance(error, PermissionError):
            return Unavailable(f"you may not use {self._path}; run this as the user who runs the service")
        return Unavailable(
            f"no service answers in {directory}; start one with 'forewarn serve --data {directory}',"
            " or name the right directory with 'forewarn --data DIR'"
        )


def new_id() -> str:
    """Draw the id of a command, which makes it happen once however often it is sent."""
    return str(uuid4())


def _parts(change: Difference) -> Iterator[Difference]:
    for key in Difference.__struct_fields__:
        for part in _slices(getattr(change, key)):
            yield msgspec.structs.replace(Difference(), **{key: part})


def _slices(records: Iterable[_View]) -> Iterator[tuple[_View, ...]]:
    rest = iter(records)
    while part := tuple(islice(rest, SLICE)):
        yield part
