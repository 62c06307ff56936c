"""Findings of ``forewarn doctor``: ok, unsure, or wrong with a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import msgspec

from forewarn.core.errors import ForewarnError


class FindingState(StrEnum):
    """State of a finding."""

    OK = "ok"
    UNSURE = "unsure"
    """It may be ok; the message says what to check."""
    WRONG = "wrong"


class DoctorFinding(msgspec.Struct, frozen=True):
    """One line of the report."""

    state: FindingState
    what: str
    said: str


class DoctorReport:
    """The findings so far, in order."""

    def __init__(self) -> None:
        self.all: list[DoctorFinding] = []

    @property
    def is_well(self) -> bool:
        return all(each.state is not FindingState.WRONG for each in self.all)

    def ok(self, what: str, said: str) -> None:
        """Report a part as ok, unless it has another finding."""
        if any(each.what == what and each.state is not FindingState.OK for each in self.all):
            return
        self.all.append(DoctorFinding(FindingState.OK, what, said))

    def unsure(self, what: str, said: str) -> None:
        self.all.append(DoctorFinding(FindingState.UNSURE, what, said))

    def wrong(self, what: str, said: str) -> None:
        self.all.append(DoctorFinding(FindingState.WRONG, what, said))

    @contextmanager
    def looking(self, what: str) -> Iterator[None]:
        """Report an exception of one check as wrong, and continue with the next check."""
        try:
            yield
        except ForewarnError as error:
            self.wrong(what, str(error))
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            self.wrong(what, f"{place}{error.strerror or error}")
