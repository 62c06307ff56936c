"""Labels of hosts and VMs, and the selectors that match them.

    rack=r1              the label has the value; also ==
    rack!=r1             it has another value, or is absent
    rack in (r1, r2)     it has one of the values
    rack notin (r1, r2)  it has none of them, or is absent
    version<1.4          it is present and lower; also <=, > and >=; versions are compared part by part
    rack                 it is present
    !rack                it is absent

Several, joined by commas, must all match.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import zip_longest
from typing import NoReturn

import msgspec

from forewarn.core.errors import BadInput, Refused

LONGEST_LABEL = 80
MOST_LABELS = 50
"""Labels that one host or VM may have."""
LONGEST_SELECTOR = 2_000
_KEY = re.compile(rf"[A-Za-z0-9_](?:[A-Za-z0-9._/-]{{0,{LONGEST_LABEL - 2}}}[A-Za-z0-9_])?")
_VALUE = re.compile(rf"[A-Za-z0-9._:/@+-]{{1,{LONGEST_LABEL}}}")
_SPACE = re.compile(r"\s*")
_COMPARISON = re.compile(r"==|!=|<=|>=|=|<|>")
_SET = re.compile(r"(not)?in\b")
_VERSION_PART = re.compile(r"\d+|[A-Za-z]+")
_ABSENT_PART = (1, 0, "")


class SelectorOperator(StrEnum):
    """How a label is compared."""

    IN = "in"
    NOT_IN = "notin"
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    PRESENT = "present"
    ABSENT = "absent"


_SINGLE = {"=": SelectorOperator.IN, "==": SelectorOperator.IN, "!=": SelectorOperator.NOT_IN}


class LabelRequirement(msgspec.Struct, frozen=True):
    """What one label must be."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case SelectorOperator.PRESENT:
                return value is not None
            case SelectorOperator.ABSENT:
                return value is None
            case SelectorOperator.IN:
                return value in self.values
            case SelectorOperator.NOT_IN:
                return value not in self.values
            case _ if value is None:
                return False
            case SelectorOperator.LESS:
                return compare_versions(value, self.values[0]) < 0
            case SelectorOperator.AT_MOST:
                return compare_versions(value, self.values[0]) <= 0
            case SelectorOperator.MORE:
                return compare_versions(value, self.values[0]) > 0
            case SelectorOperator.AT_LEAST:
                return compare_versions(value, self.values[0]) >= 0


class LabelSelector(msgspec.Struct, frozen=True):
    """What the labels of a host or VM must be; without requirements it matches all."""

    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(each.matches(labels) for each in self.requirements)


def parse_selector(text: str) -> LabelSelector:
    """Read a selector; raise BadInput that names the character and what is expected there."""
    if len(text) > LONGEST_SELECTOR:
        raise BadInput(f"a label selector has at most {LONGEST_SELECTOR} characters; this one has {len(text)}")
    return LabelSelector(tuple(_Parser(text).requirements()))


def compare_versions(one: str, other: str) -> int:
    """Return below 0, 0 or above 0: numbers count as numbers, a missing part as 0, and a word is lower than that.

    So 1.9 is lower than 1.10, 1.4 is equal to 1.4.0, and 1.4-rc1 is lower than 1.4.
    """
    for mine, theirs in zip_longest(_version_parts(one), _version_parts(other), fillvalue=_ABSENT_PART):
        if mine != theirs:
            return -1 if mine < theirs else 1
    return 0


def _version_parts(version: str) -> Iterator[tuple[int, int, str]]:
    for part in _VERSION_PART.findall(version):
        yield (1, int(part), "") if part.isdigit() else (0, 0, part.lower())


def check_labels(what: str, labels: Mapping[str, str]) -> None:
    """Refuse labels that no selector could name."""
    if len(labels) > MOST_LABELS:
        raise Refused(f"{what} has {len(labels)} labels; {MOST_LABELS} are possible")
    for key, value in labels.items():
        if not is_label_key(key):
            raise Refused(f"{what}: {key!r} is not a valid label key; {KEY_REMEDY}")
        if not is_label_value(value):
            raise Refused(f"{what}: {value!r} is not a valid value of label {key!r}; {VALUE_REMEDY}")


KEY_REMEDY = (
    f"use up to {LONGEST_LABEL} letters, digits, '.', '_', '/' and '-', with a letter, a digit or '_' at both ends"
)
VALUE_REMEDY = f"use 1 to {LONGEST_LABEL} letters, digits, '.', '_', ':', '/', '@', '+' and '-'"


def is_label_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    return _VALUE.fullmatch(text) is not None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def requirements(self) -> Iterator[LabelRequirement]:
        self._skip(_SPACE)
        while True:
            yield self._requirement()
            if self._at == len(self._text):
                return
            if not self._skip_text(","):
                self._expect("',' or the end")

    def _requirement(self) -> LabelRequirement:
        if self._skip_text("!"):
            return LabelRequirement(self._key(), SelectorOperator.ABSENT)
        key = self._key()
        if comparison := self._skip(_COMPARISON):
            value = self._value()
            if comparison in _SINGLE:
                return LabelRequirement(key, _SINGLE[comparison], (value,))
            return LabelRequirement(key, SelectorOperator(comparison), (value,))
        if word := self._skip(_SET):
            return LabelRequirement(key, SelectorOperator(word), tuple(self._values()))
        return LabelRequirement(key, SelectorOperator.PRESENT)

    def _key(self) -> str:
        return self._skip(_KEY) or self._expect("the key of a label, such as rack")

    def _value(self) -> str:
        return self._skip(_VALUE) or self._expect("a value, such as r1")

    def _values(self) -> Iterator[str]:
        if not self._skip_text("("):
            self._expect("values in parentheses, such as (r1, r2)")
        yield self._value()
        while self._skip_text(","):
            yield self._value()
        if not self._skip_text(")"):
            self._expect("',' or ')'")

    def _skip(self, pattern: re.Pattern[str]) -> str:
        """Skip what matches here, and the space after it; return it."""
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        space = _SPACE.match(self._text, found.end())
        self._at = space.end() if space else found.end()
        return found[0]

    def _skip_text(self, text: str) -> bool:
        return bool(self._skip(re.compile(re.escape(text))))

    def _expect(self, what: str) -> NoReturn:
        found = repr(self._text[self._at : self._at + 20]) if self._at < len(self._text) else "its end"
        raise BadInput(
            f"label selector {self._text!r}: character {self._at + 1}: expected {what}, found {found}; "
            "write it like rack=r1, version<1.4 or rack in (r1, r2), several joined by commas"
        )
