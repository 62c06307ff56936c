"""A client on our own library, which waits for news: ``waiting.py URL VM PREPARED``."""

import sys
from pathlib import Path

from forewarn import Client
from forewarn.client.changes import ChangeKind
from forewarn.client.errors import UnknownEvent
from forewarn.core.model import EventStatus

URL, VM, PREPARED = sys.argv[1:]

with Client(URL) as client:
    for change in client.watch():
        event = change.event
        if change.kind is ChangeKind.NEW and event.status == EventStatus.SCHEDULED and VM in event.resources:
            Path(PREPARED).touch()
            try:
                client.approve(event)
            except UnknownEvent:
                continue
