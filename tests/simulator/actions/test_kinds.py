"""All kinds of actions: each has one sentence, from which it is read."""

import inspect
import pkgutil
import re
from importlib import import_module

import pytest
from hypothesis import given

from forewarn.simulator import actions
from forewarn.simulator.actions.kinds import COMMANDS, FAULTS, KINDS, NODE_FAULTS, parse_action
from forewarn.simulator.actions.planned_action import PlannedAction
from tests.simulator.any_actions import actions_of


@pytest.mark.end_to_end
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_action_is_read_from_its_sentence(kind: type[PlannedAction]) -> None:
    """The sentence holds all fields, and is that of no other kind."""

    @given(actions_of(kind))
    def holds(action: PlannedAction) -> None:
        assert parse_action(action.at, str(action)) == action

    holds()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_sentence_has_all_fields(kind: type[PlannedAction]) -> None:
    """A saved plan has nothing else to read an action from."""
    assert {"at", *re.findall(r"\{(\w+)\}", kind.sentence)} == set(kind.__struct_fields__)
    assert bool(kind.chosen) == bool(kind.choices)


def test_every_class_of_an_action_is_listed_once() -> None:
    """One that is not listed could not be read from a plan, and would be expected by no coverage."""
    modules = [import_module(each.name) for each in pkgutil.iter_modules(actions.__path__, f"{actions.__name__}.")]
    defined = {
        each
        for module in modules
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, PlannedAction) and each is not PlannedAction
    }

    assert sorted(KINDS, key=repr) == sorted(defined, key=repr)
    assert (*COMMANDS, *FAULTS, *NODE_FAULTS) == KINDS


def test_words_of_no_action_are_refused() -> None:
    """Whoever writes a plan is told which words are wrong."""
    with pytest.raises(ValueError, match="'ann sings' describes no action"):
        parse_action(1.0, "ann sings")
