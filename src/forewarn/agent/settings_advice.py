"""What a configuration says that its author can hardly have meant, though nothing is wrong with it. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from forewarn.agent.decision.rules import ApprovalMode, Concern, EventRule
from forewarn.core.model import EventType
from forewarn.wire.azure_names import TYPES


def find_doubtful_settings(
    rules: Sequence[EventRule], handlers: Iterable[str], holding: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a sentence for each; ``holding`` are handlers that hold the approval without saying on_failure."""
    for number, rule in enumerate(rules):
        before = next((other.name for other in rules[:number] if _fits_all_of(other, rule)), None)
        if before is not None:
            yield f"rule {rule.name!r} is never reached: all that it is for falls under {before!r} before it"
        if (rule.duration_at_most or rule.duration_at_least) and rule.types:
            # Azure: only of a freeze it is told how long it lasts.
            unknown = [TYPES[each] for each in rule.types if each is not EventType.FREEZE]
            if unknown:
                yield (
                    f"rule {rule.name!r} does not fit a {' or '.join(unknown)}: nobody tells how long one lasts;"
                    " write another rule for it, without a limit"
                )
    used = {name for rule in rules for name in rule.handlers}
    for name in handlers:
        if name not in used:
            yield f"handler {name!r} stands in no rule, and is never called"
    approving = {name for rule in rules if rule.approval is ApprovalMode.WHEN_READY for name in rule.handlers}
    if named := ", ".join(name for name in holding if name in approving):
        yield (
            f"no on_failure is set for {named}: the default is hold, and was go-on before. If one fails or is left"
            " out, the event is no longer approved, and comes at its NotBefore. Write"
            ' on_failure = "go-on" to keep what was, "hold" to confirm the default'
        )


def _fits_all_of(one: EventRule, other: EventRule) -> bool:
    """Tell whether a rule fits whatever another fits; where that is hard to know, it is taken not to."""
    return (
        (not one.types or (bool(other.types) and set(one.types) >= set(other.types)))
        and one.source in (None, other.source)
        and one.duration_at_most is None
        and one.duration_at_least is None
        and one.description in ("*", other.description)
        and one.resources in (("*",), other.resources)
        and one.concerns in (Concern.ANY, other.concerns)
    )
