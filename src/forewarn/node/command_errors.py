"""Errors of commands on their way to another process, which learns the class that a caller of VMs tells apart."""

import msgspec

from forewarn.core.errors import ForewarnError, OutcomeUnknown, Refused, Unavailable

_ERRORS = (Refused, OutcomeUnknown, Unavailable, ForewarnError)
"""The errors that a caller of the metadata plane tells apart, the narrow ones first."""


class ErrorRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why a command failed."""

    kind: str
    """The class of the error."""
    reason: str


def record_error(error: BaseException) -> ErrorRecord:
    kind = next((each for each in _ERRORS if isinstance(error, each)), ForewarnError)
    return ErrorRecord(kind.__name__, str(error))


def read_error(record: ErrorRecord) -> ForewarnError:
    """Return the error that was recorded; an unknown class is that of a newer release."""
    found = {each.__name__: each for each in _ERRORS}
    return found.get(record.kind, ForewarnError)(record.reason)
