"""An import: looks, plans, writes, and where it is wanted stays in step with libvirt."""

import logging
from collections.abc import Callable

from forewarn.cli.importing.merging import ImportPlan, absent, merge, uuid_of
from forewarn.cli.importing.sources import LibvirtSources
from forewarn.cli.importing.targets import ImportTarget
from forewarn.core.errors import ForewarnError

log = logging.getLogger(__name__)

_SETTLES_WITHIN = 0.5
"""Seconds in which what belongs together is told by libvirt."""
_LOOK_ANYWAY = 60.0
"""Seconds after which one looks without news: a connection may have died meanwhile."""
_TRY_AGAIN = 5.0
"""Seconds after which one looks again when the fleet was not changed, for an event may have been in the way."""


class LibvirtImport:
    """One import, from some sources into a target."""

    def __init__(self, sources: LibvirtSources, target: ImportTarget, *, removes: bool = False) -> None:
        self._sources = sources
        self._target = target
        self._removes = removes
        self._declared: set[str] = set()
        """The UUIDs of VMs that the fleet has, or had while we followed and libvirt has still."""

    def plan(self) -> ImportPlan:
        """Look, and return what would change."""
        # Read first: a VM that is deleted after that makes the plan outdated, and it is refused.
        declared = self._target.read()
        found = self._sources.look()
        known = {uuid_of(vm) for vm in declared.vms.values()}
        there = {machine.uuid for inventory in found for machine in inventory.machines}
        # What the fleet had before, and has no more, was deleted; libvirt is just removing it.
        deleted = (self._declared & there) - known
        self._declared = known | deleted
        return merge(found, declared, absent(found, declared) if self._removes else (), deleted)

    def write(self, plan: ImportPlan) -> None:
        self._target.write(plan.wish, plan.moves)

    def follow(self, tell: Callable[[ImportPlan], None], rounds: int | None = None) -> None:
        """Stay in step for ever, or for so many rounds; what is undefined while one looks goes too."""
        self._removes = True
        look_after = _LOOK_ANYWAY
        while rounds is None or rounds > 0:
            self._sources.news.wait(look_after)
            look_after = _LOOK_ANYWAY
            if self._sources.news.is_set():
                # What comes together is looked at together.
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
                look_after = _TRY_AGAIN
            rounds = None if rounds is None else rounds - 1
