"""What was found: well, wrong with a remedy, or not to be seen from here."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import msgspec

from forewarn.core.errors import ForewarnError


class FindingState(StrEnum):
    """How something is."""

    OK = "ok"
    UNSURE = "unsure"
    """It may be well; what is said tells what to see to."""
    WRONG = "wrong"


class DoctorFinding(msgspec.Struct, frozen=True):
    """One line of the report."""

    state: FindingState
    what: str
    said: str


class DoctorReport:
    """What was found so far, in the order in which it was looked at."""

    def __init__(self) -> None:
        self.all: list[DoctorFinding] = []

    @property
    def is_well(self) -> bool:
        """Tell whether nothing is wrong."""
        return all(each.state is not FindingState.WRONG for each in self.all)

    def ok(self, what: str, said: str) -> None:
        """Say that a part is well, unless something else was found of it before."""
        if any(each.what == what and each.state is not FindingState.OK for each in self.all):
            return
        self.all.append(DoctorFinding(FindingState.OK, what, said))

    def unsure(self, what: str, said: str) -> None:
        self.all.append(DoctorFinding(FindingState.UNSURE, what, said))

    def wrong(self, what: str, said: str) -> None:
        self.all.append(DoctorFinding(FindingState.WRONG, what, said))

    @contextmanager
    def looking(self, what: str) -> Iterator[None]:
        """Let one look fail without the others; what it says then is what is wrong."""
        try:
            yield
        except ForewarnError as error:
            self.wrong(what, str(error))
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            self.wrong(what, f"{place}{error.strerror or error}")
