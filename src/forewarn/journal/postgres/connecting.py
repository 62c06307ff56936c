"""Connects to the host of an address that accepts writes: a host that is silent does not keep the others waiting.

    the host that accepted writes last ──── 0.25 s ────▶ the next one as well ──── 0.25 s ────▶ ...

As RFC 8305 does with the addresses of one name: each host has a head start before the next one, and one that refuses
has none any more. A host that refuses, such as a standby, is asked again while another one is silent: it may be
promoted meanwhile. The first that accepts writes is used.
"""

from collections import deque
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Lock as Mutex
from threading import Thread

from forewarn.journal.postgres.connection import LimitedConnection

HEAD_START = 0.25
"""Seconds after which the next host is tried, although the ones before have not answered."""
_AGAIN = 0.5
"""Seconds after which a host that refused is asked again."""

_Result = tuple[int, LimitedConnection | Exception]


def connect_to_first(attempts: Sequence[str]) -> LimitedConnection:
    """Return a connection by the first of these addresses that succeeds; raise what the last of them failed with."""
    if len(attempts) == 1:
        return LimitedConnection.connect(attempts[0], autocommit=True)
    return _Race(attempts).run()


class _Race:
    """The attempts of one call; those that are late are closed."""

    def __init__(self, attempts: Sequence[str]) -> None:
        self._attempts = attempts
        self._results: SimpleQueue[_Result] = SimpleQueue()
        self._mutex = Mutex()
        self._is_over = False

    def run(self) -> LimitedConnection:
        failures: dict[int, Exception] = {}
        waiting, refused = deque(range(len(self._attempts))), deque[int]()
        under_way = 0
        while waiting or under_way:
            if waiting:
                Thread(target=self._try, args=(waiting.popleft(),), name="journal-connect", daemon=True).start()
                under_way += 1
            try:
                number, result = self._results.get(timeout=HEAD_START if waiting else _AGAIN)
            except Empty:
                if not waiting:
                    waiting, refused = refused, deque()
                continue
            under_way -= 1
            if isinstance(result, LimitedConnection):
                self._end()
                return result
            failures[number] = result
            refused.append(number)
        raise failures[len(self._attempts) - 1]

    def _try(self, number: int) -> None:
        result: LimitedConnection | Exception
        try:
            result = LimitedConnection.connect(self._attempts[number], autocommit=True)
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
            result = error
        with self._mutex:
            if not self._is_over:
                self._results.put((number, result))
                return
        _close(result)

    def _end(self) -> None:
        with self._mutex:
            self._is_over = True
        while True:
            try:
                _close(self._results.get_nowait()[1])
            except Empty:
                return


def _close(result: LimitedConnection | Exception) -> None:
    if isinstance(result, LimitedConnection):
        result.close()
