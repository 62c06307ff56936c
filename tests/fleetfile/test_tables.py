"""The tables of the fleet file agree with the rules that decide on them."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from forewarn.core.errors import Refused
from forewarn.core.model import GroupKind, GroupTerms, InstanceFacts, Interface, Policy, Vm
from forewarn.core.terms import check_name, check_terms
from forewarn.fleetfile import tables

RUN_TIME = {"instance", "interface", "moved_to", "deallocated"}


def is_taken(reader: tables.Reader, given_value: object) -> bool:
    with contextlib.suppress(ValueError):
        reader(given_value)
        return True
    return False


def is_allowed(name: str) -> bool:
    with contextlib.suppress(Refused):
        check_name("VM", name)
        return True
    return False


@given(st.one_of(st.text(max_size=3), st.text("aZ0_-. é\n", max_size=4), st.integers(78, 82).map("a".__mul__)))
def test_names_are_those_that_the_rules_allow(name: str) -> None:
    """A file is refused with a line where the rules would refuse without."""
    assert is_taken(tables.name, name) == is_allowed(name)


@given(st.integers(0, 1_200))
def test_terminate_notices_are_those_that_the_rules_allow(seconds: int) -> None:
    """From five to fifteen minutes."""
    allowed = True
    try:
        check_terms(GroupTerms("pool", GroupKind.SCALE_SET, terminate_notice=seconds))
    except Refused:
        allowed = False

    assert is_taken(tables.terminate_notice, f"{seconds}s") == allowed


def test_every_declared_field_of_a_record_has_a_key() -> None:
    """A field that is added to the model is not forgotten here."""
    known = {field.name for field in (*fields(Vm), *fields(Interface), *fields(InstanceFacts))} - RUN_TIME

    assert set(tables.VM_KEYS) == known
    terms = {field.name for field in fields(GroupTerms)} - {"policy"} | {field.name for field in fields(Policy)}
    assert set(tables.GROUP_KEYS) == terms


def test_what_is_wrong_with_a_table_names_the_key() -> None:
    """So that whoever knows the file can name the line."""
    with pytest.raises(tables.InvalidTable) as wrong:
        tables.read_vm({"name": "a", "spot": "yes"})

    assert wrong.value.key == "spot"


def test_a_text_has_up_to_512_characters() -> None:
    """Such as a tag."""
    assert is_taken(tables.text, "x" * 512)
    assert not is_taken(tables.text, "x" * 513)


def test_a_wrong_value_of_sixty_characters_is_shown_whole() -> None:
    """A longer one is cut."""
    for length, shown in ((60, "'-" + "x" * 57 + "'"), (61, "'-" + "x" * 55 + "...")):
        with pytest.raises(ValueError, match=re.escape(f"is {shown}, expected")):
            tables.name("-" + "x" * (length - 3))
