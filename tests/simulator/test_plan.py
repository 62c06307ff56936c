"""The text of a plan: all of it is written, and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.simulator import plan as plans
from forewarn.simulator.actions.kinds import KINDS
from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm, format_plan, parse_plan
from tests.simulator.any_actions import actions_of, seconds, words

names = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
any_action = st.sampled_from(KINDS).flatmap(actions_of)
any_plan = st.builds(
    Plan,
    seed=st.integers(min_value=0),
    hurry=st.floats(min_value=0.1, max_value=1000),
    hosts=st.lists(names, max_size=3).map(tuple),
    groups=st.lists(
        st.builds(PlannedGroup, names, names, st.sampled_from(("{}", '{"approval":"all"}', '{"a": "b  c"}'))),
        max_size=3,
    ).map(tuple),
    vms=st.lists(
        st.builds(
            PlannedVm, names, names, names | st.just(""), st.integers(0), st.integers(0), words, st.booleans(), names
        ),
        max_size=3,
    ).map(tuple),
    owners=st.dictionaries(names, st.lists(names, max_size=2).map(tuple), max_size=2),
    actions=st.lists(any_action, max_size=5).map(tuple),
    ends_at=seconds,
    has_sqlite=st.booleans(),
    workers=st.integers(min_value=0, max_value=3),
    moves_live=st.booleans(),
    large_changes=st.booleans(),
    user_limit=st.integers(min_value=0),
    slowness=st.floats(min_value=0.1, max_value=100),
    driver=st.sampled_from(("machines", "immediate", "command", "webhook")),
)


@pytest.mark.end_to_end
@given(any_plan)
def test_a_plan_is_read_from_its_text(plan: Plan) -> None:
    """What is printed is all that a run depends on."""
    assert parse_plan(format_plan(plan)) == plan


def test_the_form_in_the_docstring_is_read() -> None:
    """The example that readers copy is a plan."""
    example = (plans.__doc__ or "").partition("read from:\n")[2].partition("\nThe terms")[0]

    plan = parse_plan(example)

    assert (plan.seed, plan.hosts, plan.owners, plan.has_sqlite) == (4711, ("h1",), {"bob": ("web",)}, True)
    assert (plan.vms[0].spot, plan.vms[0].guest, str(plan.actions[0])[:16]) == (True, "prompt", "ann asks for res")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("12 ann sings", "describes no action"),
        ("ann sings", "could not convert"),
        ("vm web-0", "a VM is written as"),
        ("group web", "Missing required argument"),
        ("12 the next x appends are refused", "invalid literal"),
    ],
)
def test_a_line_that_is_none_of_a_plan_is_named(line: str, reason: str) -> None:
    """Whoever edits a plan by hand is told the line."""
    with pytest.raises(ValueError, match=rf"line 2 of the plan cannot be read.*{reason}"):
        parse_plan(f"seed 1\n{line}\n")


def test_a_plan_without_a_seed_is_refused() -> None:
    """The seed decides what is drawn during the run."""
    with pytest.raises(ValueError, match="names no seed"):
        parse_plan("hurry 60\n")
