"""Of an address its host is shown; what others repeat of it is taken out of their words."""

import pytest

from forewarn.core.redaction import (
    scrubbed,
    secrets_among,
    secrets_in,
    shown_address,
    shown_text,
    shown_tokens,
    shown_uri,
    shown_url,
)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.slack.com/services/T0/B0/key", "https://hooks.slack.com/…"),
        ("https://ada:secret@example.org:8443/?sig=key", "https://example.org:8443/…"),
        ("http://ada:se@cret@[::1]:80", "http://[::1]:80"),
        ("https://example.org/", "https://example.org"),
        ("example.org/key", "…"),
        ("http://[key", "…"),
        ("http:///key", "…"),
    ],
)
def test_the_host_of_a_url_is_shown(url: str, shown: str) -> None:
    """Its path, query, fragment, user and password may be secret; of a text that is not a URL nothing is shown."""
    assert shown_url(url) == shown


def test_a_refused_address_is_shown_as_it_was_given() -> None:
    """So that the mistake in it is seen, unless a user, a password or a query stands in it."""
    assert shown_address("https//example.org/a") == "https//example.org/a"
    assert shown_address("https://ada:key@example.org") == "https://example.org"
    assert shown_address("example.org?token=key") == "…"
    assert shown_text("no (https://ada:key@example.org/a), http://b/c") == "no (https://example.org/…), http://b/c"


@pytest.mark.parametrize("url", ["//example.org/a", "example.org"])
def test_what_has_no_scheme_is_no_url(url: str) -> None:
    """Nothing of it is shown."""
    assert shown_url(url) == "…"


def test_a_fragment_is_hidden_as_a_path_is() -> None:
    """It may be a key as well."""
    assert shown_url("https://example.org#key") == "https://example.org/…"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("qemu+ssh://root@h1:22/system", "qemu+ssh://root@h1:22/system"),
        ("qemu+tcp://ada:se@cret@h1:1/system", "qemu+tcp://ada:…@h1:1/system"),
        ("qemu+unix:///system?socket=/run/a:b@c", "qemu+unix:///system?socket=/run/a:b@c"),
        ("qemu+tcp://h1:16509/a@b", "qemu+tcp://h1:16509/a@b"),
    ],
)
def test_the_uri_of_a_hypervisor_is_shown_without_its_password(uri: str, shown: str) -> None:
    """The rest tells the operator which one does not answer."""
    assert shown_uri(uri) == shown


def test_what_a_receiver_repeats_is_taken_out() -> None:
    """The whole path, long parts of it, the query, its long values as written and decoded, user and password."""
    url = "https://ada:secret@example.org/services/T0/PLANTEDkey?sig=a%2Bsignature"
    said = "no /services/T0/PLANTEDkey, PLANTEDkey, sig=a%2Bsignature, a+signature, ada:secret, secret at example.org"

    assert scrubbed(said, secrets_in(url)) == "no …, …, …, …, …, … at example.org"
    assert scrubbed("nothing", secrets_in("http://example.org/")) == "nothing"


def test_a_token_is_shown_up_to_its_id() -> None:
    """Its id is in every list; the rest opens the control plane."""
    said = f"no token fw_0123456789abcdef_{'s3cr-t_x' * 5}abc here; see fw_x"

    assert shown_tokens(said) == "no token fw_0123456789abcdef_… here; see fw_x"


def test_values_of_an_environment_may_be_secret_by_name_or_by_form() -> None:
    """Words, sentences and paths are not; they help to understand what a program complains of."""
    environment = {
        "API_TOKEN": "abc",
        "WHATEVER": "0123456789abcdef",
        "REGION": "eu-1",
        "TEXT": "two words",
        "HOME": "/var/lib/forewarn",
        "PASSWORD": "",
    }

    assert secrets_among(environment) == ("0123456789abcdef", "abc")


def test_parts_of_a_path_that_may_be_keys_are_secret() -> None:
    """From eight characters on; a shorter one is a word. Nothing is no secret."""
    found = list(secrets_in("https://example.org/abcdefgh/abcdefg?key=12345678"))

    assert {"abcdefgh", "12345678"} <= set(found)
    assert "abcdefg" not in found
    assert list(secrets_in("https://example.org/")) == list(secrets_in("https://example.org")) == []


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://ada:pass:word@example.org", {"ada:pass:word", "pass:word"}),
        ("https://example.org/hook?key=1", {"/hook?key=1", "/hook", "key=1"}),
        ("https://example.org/a%20longer%20name", {"/a%20longer%20name", "/a longer name", "a%20longer%20name"}),
    ],
)
def test_a_secret_is_found_as_it_is_written_and_decoded(url: str, found: set[str]) -> None:
    """A password may hold a colon; a user's name alone is none."""
    secrets = set(secrets_in(url))

    assert found <= secrets
    assert secrets.isdisjoint({"ada", "word", "pass"})


def test_a_value_of_eight_characters_may_be_secret() -> None:
    """Seven are a word."""
    assert secrets_among({"A": "12345678", "B": "1234567"}) == ("12345678",)
