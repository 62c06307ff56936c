"""Calls of drivers and handlers as they are really made: in a thread, and bounded in time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import pytest

Returned = TypeVar("Returned")


def begin(call: Callable[[], Returned]) -> Future[Returned]:
    """Make a call in a thread that dies with the process."""
    answer: Future[Returned] = Future()

    def answer_or_fail() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 it is raised again in the test's own thread
            answer.set_exception(error)

    threading.Thread(target=answer_or_fail, daemon=True).start()
    return answer


def in_time(who: str, seconds: float, answer: Future[Returned]) -> Returned:
    """Return what a call returns, and raise what it raises; fail the test if it takes longer."""
    try:
        return answer.result(seconds)
    except TimeoutError:
        if answer.done():
            raise  # it was the call that raised it
        pytest.fail(f"the {who} did not return within {seconds:g} s")
