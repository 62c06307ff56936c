"""Translates field names in the service's errors to flags and arguments of the command."""

import re
from datetime import timedelta

import click

from forewarn.config.durations import show_duration

_FIELD = re.compile(r"\b(?:body|query)\.(\w+)(?:\[[^]]*\])?: ")
_NOT_BEFORE = re.compile(r"^not before (?=\d)")
_LONGEST = re.compile(r"(\bbody\.(?:seconds|lasts|postpone_limit): )Expected `int(?: \| null)?` <= (\d+)")
"""A duration that is sent in seconds, and given in whatever unit."""
_PREFACE = "correct the request and send it again: "
_PLAIN = (
    (re.compile(r"Expected `(?:int|float)(?: \| null)?` <= (\d+)"), r"it must be at most \1"),
    (re.compile(r"Expected `(?:int|float)(?: \| null)?` >= (-?\d+)"), r"it must be at least \1"),
    (re.compile(r"Expected `str(?: \| null)?` of length <= (\d+)"), r"it must have at most \1 characters"),
    (re.compile(r"Expected `array(?: \| null)?` of length <= (\d+)"), r"it may be given at most \1 times"),
    (re.compile(r"Expected `str(?: \| null)?` matching regex .*"), "it must be one line, without control characters"),
)
"""Validation messages of the service, with readable replacements."""


def in_flags(message: str, command: click.Command) -> str:
    """Return the service's error with the flags and arguments of the command."""
    shown = {parameter.name: flag_of(parameter) for parameter in command.params}
    if "not_before" in shown:
        message = _NOT_BEFORE.sub(f"{shown['not_before']} ", message)
    if not _FIELD.search(message):
        return message
    message = _LONGEST.sub(_show_longest, message.removeprefix(_PREFACE))
    message = _FIELD.sub(lambda found: f"{shown.get(found[1], found[1])}: ", message)
    for said, plain in _PLAIN:
        message = said.sub(plain, message)
    return message


def _show_longest(found: re.Match[str]) -> str:
    return f"{found[1]}it must be at most {show_duration(timedelta(seconds=int(found[2])))}"


def flag_of(parameter: click.Parameter) -> str:
    """Return a parameter's name on the command line."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.human_readable_name


class CaseInsensitiveChoice(click.Choice[str]):
    """A choice that ignores case; help and errors show the original spelling."""

    def __init__(self, *words: str) -> None:
        super().__init__(words, case_sensitive=False)

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        return f"{value!r} is not one of {', '.join(self.choices)}."
