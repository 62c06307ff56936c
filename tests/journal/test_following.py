"""Waiting for entries."""

from forewarn.journal.following import AppendNotifier
from forewarn.testing.calls import begin, in_time


def test_it_looks_again_after_its_interval() -> None:
    """What another process appended is noticed although nobody notifies."""
    answers = iter([False, False, True])

    assert AppendNotifier(interval=0.001).wait(lambda: next(answers), timeout=60)


def test_a_notification_goes_before_the_interval() -> None:
    """A thread that waits looks at once."""
    appended: list[int] = []
    notifier = AppendNotifier(interval=600.0)
    waiting = begin(lambda: notifier.wait(lambda: bool(appended), timeout=600))
    appended.append(1)
    notifier.notify()

    assert in_time("waiting thread", 30, waiting)


def test_it_ends_when_its_time_is_over() -> None:
    """However long the interval."""
    assert not AppendNotifier(interval=600.0).wait(lambda: False, timeout=0.001)
