"""A small client that does one thing wrong if it is told to: ``client.py URL VM PREPARED [FAULT]``."""

import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

URL, VM, PREPARED = sys.argv[1:4]
FAULT = "".join(sys.argv[4:])
PERIOD = 0.01 if FAULT == "hasty" else 0.35
VERSION = "2021-02-01" if FAULT == "version" else "2020-07-01"
TROUBLES = (OSError, ValueError, http.client.HTTPException)
if FAULT == "proxy":
    OPENER = urllib.request.build_opener()
else:
    OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(body: dict[str, Any] | None = None) -> Any:
    headers = {} if FAULT == "header" else {"Metadata": "true"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{URL}?api-version={VERSION}", data, headers)  # noqa: S310 - given by the test
    with OPENER.open(request, timeout=30) as reply:
        return None if body else json.load(reply)


def must_end(trouble: Exception) -> bool:
    """Return whether this is what it cannot stand."""
    if isinstance(trouble, urllib.error.HTTPError):
        return str(trouble.code) == FAULT
    if isinstance(trouble, http.client.IncompleteRead):
        return FAULT == "half"
    return isinstance(trouble, ValueError) and FAULT in ("body", "date")


def main() -> None:
    incarnation, done, wanted = -1, set[str](), dict[str, None]()
    while True:
        try:
            document = ask()
            seen = document["DocumentIncarnation"]
            is_new = seen > incarnation if FAULT == "less" else seen != incarnation
            if is_new:
                incarnation = seen
                shown = {event["EventId"]: event for event in document["Events"]}
                if FAULT != "cancel":
                    wanted = {id_: None for id_ in wanted if id_ in shown}
                for id_, event in shown.items():
                    if FAULT == "date":
                        parsedate_to_datetime(event["NotBefore"])
                    if (
                        FAULT != "shy"
                        and event["EventStatus"] == "Scheduled"
                        and (VM in event["Resources"] or FAULT == "greedy")
                    ):
                        wanted[id_] = None
            for id_ in [each for each in wanted if each not in done]:
                if FAULT != "early":
                    Path(PREPARED).touch()
                ask({"StartRequests": [{"EventId": id_}]})
                done.add(id_)
        except TROUBLES as trouble:
            if must_end(trouble):
                raise
        time.sleep(PERIOD)


main()
