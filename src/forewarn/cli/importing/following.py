"""An import: looks, plans, writes, and where it is wanted stays in step with libvirt."""

import logging
from collections.abc import Callable

from forewarn.cli.importing.merging import Plan, absent, merge
from forewarn.cli.importing.sources import Sources
from forewarn.cli.importing.targets import Target
from forewarn.core.errors import ForewarnError

log = logging.getLogger(__name__)

_SETTLES_WITHIN = 0.5
"""Seconds in which what belongs together is told by libvirt."""
_LOOK_ANYWAY = 60.0
"""Seconds after which one looks without news: a connection may have died meanwhile."""


class Import:
    """One import, from some sources into a target."""

    def __init__(self, sources: Sources, target: Target, *, removes: bool = False) -> None:
        self._sources = sources
        self._target = target
        self._removes = removes

    def plan(self) -> Plan:
        """Look, and return what would change."""
        found, declared = self._sources.look(), self._target.read()
        return merge(found, declared, absent(found, declared) if self._removes else ())

    def write(self, plan: Plan) -> None:
        self._target.write(plan.wish)

    def follow(self, tell: Callable[[Plan], None], rounds: int | None = None) -> None:
        """Stay in step for ever, or for so many rounds; what is undefined while one looks goes too."""
        self._removes = True
        while rounds is None or rounds > 0:
            self._sources.news.wait(_LOOK_ANYWAY)
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
                log.warning("the import waits: %s", error)
            rounds = None if rounds is None else rounds - 1
