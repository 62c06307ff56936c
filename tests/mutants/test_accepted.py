"""The list of mutations that no test needs to find."""

from collections import Counter
from pathlib import Path

import pytest

from mutants.accepted import FILE, Accepted, parse
from mutants.mutations import mutations_of

ROOT = Path(__file__).parents[2]
ENTRY = "src/forewarn/core/turns.py settle\n- a < b\n+ a <= b\nThey are never equal.\n"


def test_an_entry_has_four_lines() -> None:
    """Place, text before, text after, reason."""
    (found,) = parse(f"# A remark.\n\n{ENTRY}")

    assert found == Accepted("src/forewarn/core/turns.py", "settle", "a < b", "a <= b", "They are never equal.")


def test_an_entry_without_a_reason_is_refused() -> None:
    """Nobody could judge later whether it still holds."""
    with pytest.raises(ValueError, match="four lines"):
        parse(ENTRY.removesuffix("They are never equal.\n"))


@pytest.mark.end_to_end
def test_every_accepted_mutation_exists() -> None:
    """An entry that fits no code any more is deleted."""
    entries = parse(FILE.read_text(encoding="utf-8"))
    known = {
        mutation.key
        for file in {each.file for each in entries}
        for mutation in mutations_of(file, (ROOT / file).read_text(encoding="utf-8"))
    }

    assert [each.key for each in entries if each.key not in known] == []
    assert [key for key, count in Counter(each.key for each in entries).items() if count > 1] == []
