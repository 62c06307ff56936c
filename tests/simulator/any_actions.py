"""Strategies of Hypothesis: any action of a kind."""

from typing import Any, get_type_hints

from hypothesis import strategies as st

from forewarn.simulator.actions.planned_action import PlannedAction

words = st.from_regex(r"[a-z][a-z0-9/{}\":,.\[\]-]{0,12}", fullmatch=True)
seconds = st.floats(min_value=0, max_value=1e9)
VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: words,
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
}


def actions_of(kind: type[PlannedAction]) -> st.SearchStrategy[PlannedAction]:
    fields = {name: VALUES[type_] for name, type_ in get_type_hints(kind).items() if type_ in VALUES}
    if kind.chosen:
        fields[kind.chosen] = st.sampled_from(kind.choices)
    return st.builds(kind, **(fields | {"at": seconds}))
