"""Runs an import: reads libvirt, plans and writes the changes, and with --follow repeats this after each change."""

import logging
from collections.abc import Callable

from forewarn.cli.importing.merging import ImportPlan, absent, merge, uuid_of
from forewarn.cli.importing.sources import LibvirtSources
from forewarn.cli.importing.targets import ImportTarget
from forewarn.core.errors import ForewarnError

log = logging.getLogger(__name__)

_SETTLES_WITHIN = 0.5
"""Seconds within which libvirt reports related changes."""
_POLL_INTERVAL = 60.0
"""Seconds after which libvirt is read without a notification: a connection may have been lost."""
_TRY_AGAIN = 5.0
"""Seconds after which a refused change is retried: an event may have blocked it."""


class LibvirtImport:
    """One import, from some sources into a target."""

    def __init__(self, sources: LibvirtSources, target: ImportTarget, *, removes: bool = False) -> None:
        self._sources = sources
        self._target = target
        self._removes = removes
        self._declared: set[str] = set()
        """UUIDs of VMs in the fleet, and of VMs that were in it during --follow and still exist in libvirt."""

    def plan(self) -> ImportPlan:
        # Read the fleet first: a later deletion makes the plan outdated, and it is refused.
        declared = self._target.read()
        found = self._sources.read()
        known = {uuid_of(vm) for vm in declared.vms.values()}
        there = {machine.uuid for inventory in found for machine in inventory.machines}
        # A VM that has left the fleet was deleted; libvirt is still removing it.
        deleted = (self._declared & there) - known
        self._declared = known | deleted
        return merge(found, declared, absent(found, declared) if self._removes else (), deleted)

    def write(self, plan: ImportPlan) -> None:
        self._target.write(plan.desired, plan.moves)

    def follow(self, tell: Callable[[ImportPlan], None], rounds: int | None = None) -> None:
        """Repeat the import for ever, or for so many rounds; remove VMs that are undefined meanwhile."""
        self._removes = True
        read_after = _POLL_INTERVAL
        while rounds is None or rounds > 0:
            self._sources.news.wait(read_after)
            read_after = _POLL_INTERVAL
            if self._sources.news.is_set():
                # Handle related changes together.
                self._sources.news.clear()
                while self._sources.news.wait(_SETTLES_WITHIN):
                    self._sources.news.clear()
            try:
                plan = self.plan()
                if plan.changes:
                    self.write(plan)
                    tell(plan)
            except ForewarnError as error:
                log.warning("the import waits", extra={"fields": {"reason": str(error)}})
                read_after = _TRY_AGAIN
            rounds = None if rounds is None else rounds - 1
