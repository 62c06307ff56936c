"""Negotiates the api-version: the newest that the service knows."""

import re
from collections.abc import Callable

from forewarn.client.endpoint_problem import newest_versions
from forewarn.core.errors import BadInput
from forewarn.http.codec import HttpResponse
from forewarn.wire.versions import API_VERSIONS, BY_NAME

_NAME = re.compile(r"[\w.-]+", re.ASCII)
_TRUST = 3_600.0
"""Seconds after which a newer version is tried again: a 400 can have other causes, and services are updated."""


class VersionNegotiation:
    """Tries versions from the newest to the oldest and keeps the first that works; a configured version is fixed."""

    def __init__(self, given: str | None, seconds: Callable[[], float]) -> None:
        if given and not _NAME.fullmatch(given):
            raise BadInput(f"{given!r} is not an api-version; write it like {API_VERSIONS[-1].name}, or leave it out")
        self._given = given
        self._seconds = seconds
        self._chosen = len(API_VERSIONS) - 1
        self._settled_at: float | None = None

    @property
    def version(self) -> str:
        """The version of the next request."""
        if self._given:
            return self._given
        if self._settled_at is not None and self._seconds() - self._settled_at > _TRUST:
            self._begin_anew()
        return API_VERSIONS[self._chosen].name

    @property
    def has_underscores(self) -> bool:
        """Return whether names have a leading underscore in this version."""
        known = BY_NAME.get(self._given) if self._given else API_VERSIONS[self._chosen]
        return known is not None and known.underscore_names

    def accepted(self) -> None:
        if self._chosen < len(API_VERSIONS) - 1 and self._settled_at is None:
            self._settled_at = self._seconds()

    def refused(self, answer: HttpResponse) -> bool:
        """Process a response; return whether the next version must be tried."""
        if self._given or not _is_about_versions(answer):
            return False
        if self._settled_at is not None:
            # The version worked before: the service may have been replaced, so start again with the newest.
            self._begin_anew()
            return True
        newest = newest_versions(answer) or ()
        named = [BY_NAME[name].index for name in newest if name in BY_NAME and BY_NAME[name].index < self._chosen]
        following = max(named, default=self._chosen - 1)
        if following < 0:
            self._begin_anew()
            return False
        self._chosen = following
        return True

    def _begin_anew(self) -> None:
        self._chosen, self._settled_at = len(API_VERSIONS) - 1, None


def _is_about_versions(answer: HttpResponse) -> bool:
    # Azure: 400, often with an empty body; formerly 404 with a text about the version.
    return answer.status == 400 or (answer.status == 404 and b"version" in answer.body.lower())
