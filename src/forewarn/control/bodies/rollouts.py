"""Bodies about rollouts."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forewarn.control.bodies.fields import ApiBody, Name
from forewarn.core.rollouts.model import RolloutTerms

MOST_HOSTS = 100_000
"""Hosts, or waves, of one rollout."""


def _optional(field: msgspec.structs.FieldInfo) -> tuple[str, object] | tuple[str, object, object]:
    """Return a field of a record as ``defstruct`` takes it."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return (field.name, field.type) if field.required else (field.name, field.type, field.default)


_RolloutTermsFields = msgspec.defstruct(
    "_RolloutTermsFields",
    [_optional(field) for field in msgspec.structs.fields(RolloutTerms)],
    bases=(ApiBody,),
    frozen=True,
    kw_only=True,
)
_RolloutEditFields = msgspec.defstruct(
    "_RolloutEditFields",
    [(field.name, field.type | UnsetType, UNSET) for field in msgspec.structs.fields(RolloutTerms)],
    bases=(ApiBody,),
    frozen=True,
    kw_only=True,
)


class RolloutTermsBody(_RolloutTermsFields):  # type: ignore[misc,valid-type]
    """What a rollout is to do; durations are seconds, shares are from 0 to 1."""

    @property
    def terms(self) -> RolloutTerms:
        return RolloutTerms(**msgspec.structs.asdict(self))


class RolloutEditBody(_RolloutEditFields):  # type: ignore[misc,valid-type]
    """What a rollout is to do otherwise; omitted fields are not changed."""

    def applied_to(self, terms: RolloutTerms) -> RolloutTerms:
        given = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not UNSET}
        return msgspec.structs.replace(terms, **given)


class RolloutBody(ApiBody, frozen=True, kw_only=True):
    """A rollout to be planned or started."""

    name: Name
    terms: RolloutTermsBody
    planned: Annotated[tuple[tuple[Name, ...], ...], Meta(max_length=MOST_HOSTS)] | None = None
    """The waves of a saved plan; refused if the fleet has changed so that they would be others now."""


class PauseRolloutBody(ApiBody, frozen=True, kw_only=True):
    """How a rollout is paused."""

    withdraw: bool = False
    """Withdraw what is Scheduled; it is announced anew after the pause."""


class RetryHostsBody(ApiBody, frozen=True, kw_only=True):
    """Which hosts of a rollout are tried again."""

    hosts: Annotated[tuple[Name, ...], Meta(max_length=MOST_HOSTS)] = ()
    """All that failed, if empty."""


class SkipHostBody(ApiBody, frozen=True, kw_only=True):
    """Which host a rollout leaves out."""

    host: Name
