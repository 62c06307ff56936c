"""A setting is found by one rule, whatever record declares it."""

from typing import Annotated

import msgspec
import pytest

from forewarn.config import toml
from forewarn.config.setting_keys import SettingKey, from_outside, from_table, keys_of, unknown_key
from forewarn.config.values import INTEGER, TEXT
from forewarn.core.errors import BadInput


class Example(msgspec.Struct):
    """Some settings."""

    host_name: Annotated[str, SettingKey(TEXT, "Whom to ask.")] = ""
    port: Annotated[int, SettingKey(INTEGER, "Where.")] = 80
    more: dict[str, object] = {}


KEYS = keys_of(Example)


def test_only_annotated_fields_are_settings() -> None:
    """A field without a key is for the program alone."""
    assert list(KEYS) == ["host_name", "port"]


def test_a_flag_goes_before_the_environment() -> None:
    """Both may say something; the flag counts, and what neither says is left out."""
    found = from_outside(KEYS, {"host_name": "flag", "port": None}, {"X_HOST_NAME": "a", "X_PORT": "7"}, "X_")

    assert found == {"host_name": "flag", "port": 7}


def test_a_wrong_variable_is_named() -> None:
    """The sentence names the variable, what it is and what it may be."""
    with pytest.raises(BadInput, match=r"^environment variable X_PORT is 'many', expected a whole number"):
        from_outside(KEYS, {}, {"X_PORT": "many"}, "X_")


def test_a_wrong_value_in_a_table_is_named_by_its_line() -> None:
    """So that somebody can go there."""
    file = toml.parse("[server]\nhost_name = 'a'\nport = '7'\n", "a.toml")

    with pytest.raises(BadInput, match=r"^a\.toml, line 3: port in \[server\] is '7', expected a whole number"):
        from_table(KEYS, file, ("server",), file.tables["server"])


def test_an_unknown_key_is_told_with_the_nearest() -> None:
    """Numbers of tables in arrays do not belong to the key's name."""
    file = toml.parse("[[server]]\nhost_nam = 'a'\n", "a.toml")

    assert str(unknown_key(file, ("server", 0, "host_nam"), KEYS)) == (
        "a.toml, line 2: there is no setting 'server.host_nam'; did you mean 'host_name'?"
    )
