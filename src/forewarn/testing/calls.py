"""Calls drivers and handlers in a thread with a timeout, as the service and the agent do."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import pytest

Returned = TypeVar("Returned")


def begin(call: Callable[[], Returned]) -> Future[Returned]:
    """Make a call in a daemon thread."""
    answer: Future[Returned] = Future()

    def answer_or_fail() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 it is raised again in the test's own thread
            answer.set_exception(error)

    threading.Thread(target=answer_or_fail, daemon=True).start()
    return answer


def in_time(who: str, seconds: float, answer: Future[Returned]) -> Returned:
    """Return the result of a call, or raise its exception; fail the test if it takes longer."""
    try:
        return answer.result(seconds)
    except TimeoutError:
        if answer.done():
            raise  # it was the call that raised it
        pytest.fail(f"the {who} did not return within {seconds:g} s")
