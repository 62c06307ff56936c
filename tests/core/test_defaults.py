"""What a record means that does not say everything: journals, snapshots and requests leave out what is as usual."""

from collections.abc import Iterator
from inspect import isclass
from types import ModuleType

import msgspec

from forewarn.core import chunks, commands, declared_keys, facts, model, placement
from forewarn.core.rollouts import commands as rollout_commands
from forewarn.core.rollouts import facts as rollout_facts

OTHERS = {
    "Approved.counts": True,
    "Event.duration": -1,
    "Group.incarnation": 1,
    "Policy.approve_all_down": True,
    "Policy.restart_after_crash": True,
    "RecordDifference.is_declared": True,
    "RecordDifference.is_present": True,
    "VmDemand.is_live": True,
}


def defaults(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the flags and numbers that the records of a module may leave out."""
    for name, each in vars(module).items():
        if isclass(each) and issubclass(each, msgspec.Struct) and each.__module__ == module.__name__:
            for field in msgspec.structs.fields(each):
                if isinstance(field.default, int):
                    yield f"{name}.{field.name}", field.default


def test_a_flag_that_is_left_out_is_off_and_a_number_is_zero() -> None:
    """Else an old journal would be read as something that it does not say; the others are named above."""
    found = dict(
        each
        for module in (chunks, commands, declared_keys, facts, model, placement, rollout_commands, rollout_facts)
        for each in defaults(module)
    )

    assert {name: value for name, value in found.items() if value} == OTHERS
    assert len(found) > 40
