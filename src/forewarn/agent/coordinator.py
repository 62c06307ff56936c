"""The command that decides whether a shared event may begin, for those who must look beyond their own VM."""

import subprocess
from collections.abc import Sequence

import msgspec

from forewarn.wire.document import ScheduledEvent
from forewarn.wire.shown import shown_event

_LONGEST = 60.0
_KEPT = 200


class Answer(msgspec.Struct, frozen=True):
    """What the coordinator said."""

    agreed: bool
    detail: str = ""


def consult(command: Sequence[str], event: ScheduledEvent) -> Answer:
    """Ask with the event as JSON on stdin: exit code 0 agrees, any other does not yet.

    Blocks for a minute at most; what cannot be run, or takes longer, does not agree.
    """
    try:
        ended = subprocess.run(  # noqa: S603 the owner of the VM named it
            command,
            input=msgspec.json.encode(shown_event(event)),
            capture_output=True,
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(agreed=False, detail=f"{command[0]} took longer than {_LONGEST:.0f} s, and was ended")
    except OSError as error:
        return Answer(agreed=False, detail=f"{command[0]} could not be run: {error.strerror or error}")
    said = (ended.stderr.strip() or ended.stdout.strip()).decode(errors="replace").splitlines()
    detail = said[-1][:_KEPT] if said else ""
    if ended.returncode not in (0, 1):
        detail = f"exit code {ended.returncode}: {detail}".rstrip(": ")
    return Answer(ended.returncode == 0, detail)
