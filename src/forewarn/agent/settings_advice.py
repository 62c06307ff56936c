"""Finds settings of an agent that are valid but probably a mistake, such as a rule that never matches. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from forewarn.agent.decision.rules import ApprovalMode, Concern, EventRule
from forewarn.core.event_types import KNOWN_DURATION
from forewarn.wire.azure_names import TYPES


def find_doubtful_settings(
    rules: Sequence[EventRule], handlers: Iterable[str], holding: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a sentence for each; ``holding`` are handlers that hold the approval without an explicit on_failure."""
    for number, rule in enumerate(rules):
        before = next((other.name for other in rules[:number] if _fits_all_of(other, rule)), None)
        if before is not None:
            yield f"rule {rule.name!r} is never used: rule {before!r} before it matches the same events"
        if (rule.duration_at_most or rule.duration_at_least) and rule.types:
            unknown = [TYPES[each] for each in rule.types if each not in KNOWN_DURATION]
            if unknown:
                yield (
                    f"rule {rule.name!r} never matches {' or '.join(unknown)}: the duration of these events is"
                    " unknown; add a rule for them without duration_at_most and duration_at_least"
                )
    used = {name for rule in rules for name in rule.handlers}
    for name in handlers:
        if name not in used:
            yield f"handler {name!r} is in no rule and is never called"
    approving = {name for rule in rules if rule.approval is ApprovalMode.WHEN_READY for name in rule.handlers}
    if named := ", ".join(name for name in holding if name in approving):
        yield (
            f"no on_failure is set for {named}: the default is hold, in earlier versions it was go-on. If a handler"
            " fails or is left out, the agent does not approve the event, and it starts at its NotBefore. Set"
            ' on_failure = "go-on" for the earlier behaviour, "hold" to confirm the default'
        )


def _fits_all_of(one: EventRule, other: EventRule) -> bool:
    """Return whether a rule matches all events that another matches; False where that cannot be determined."""
    return (
        (not one.types or (bool(other.types) and set(one.types) >= set(other.types)))
        and one.source in (None, other.source)
        and one.duration_at_most is None
        and one.duration_at_least is None
        and one.description in ("*", other.description)
        and one.resources in (("*",), other.resources)
        and one.concerns in (Concern.ANY, other.concerns)
    )
