"""``forewarn conformance``: what it prints, and how it ends."""

import pytest

from forewarn.emulator import Emulator
from tests.cli.conftest import Forewarn
from tests.conformance.kit.mock import Mock


def test_a_server_without_a_breach_ends_with_zero(forewarn: Forewarn) -> None:
    """A line for what is kept, the reason for what was not seen, and a count below."""
    with Emulator("web-0") as emulator:
        ran = forewarn("conformance", "--url", emulator.url, "--only", "latest-is-no-version", "--only", "turns")

    assert ran.code == 0
    assert ran.out.splitlines() == [
        "kept      latest-is-no-version",
        "not seen  it cannot be seen from outside:",
        "          turns",
        "1 kept, 1 not seen",
    ]


def test_a_breach_is_told_with_what_was_expected_and_seen(forewarn: Forewarn) -> None:
    """Below the rule that it breaks."""
    with Mock() as mock:
        ran = forewarn("conformance", "--url", mock.url, "--only", "refused-without-header")

    rule, expected, seen, count = ran.out.splitlines()
    assert (rule, count) == ("breach    refused-without-header", "1 breach")
    assert expected.startswith("          expected  400")
    assert seen.startswith("          seen      200")


def test_a_breach_ends_with_one(forewarn: Forewarn) -> None:
    """And can be read by programs."""
    with Mock() as mock:
        ran = forewarn("conformance", "--url", mock.url, "--only", "refused-without-header", "--json")

    assert ran.code == 1
    assert [(each["rule"], each["outcome"]) for each in ran.json] == [("refused-without-header", "breach")]


def test_what_is_ours_binds_only_who_is_held_to_it(forewarn: Forewarn) -> None:
    """With --ours what differs is a breach."""
    with Mock() as mock:
        assert forewarn("conformance", "--url", mock.url, "--only", "etag").code == 0
        assert forewarn("conformance", "--url", mock.url, "--only", "etag", "--ours").code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "give a server with --url, or a client with --client"),
        (["--url", "http://127.0.0.1:1", "--client", "x"], 2, "give a server with --url, or a client with --client"),
        (["--url", "http://127.0.0.1:1", "--wait", "soon"], 2, "flag --wait is 'soon', expected a duration"),
        (["--url", "http://127.0.0.1:1", "--only", "etags"], 2, "there is no rule 'etags'; did you mean 'etag'?"),
        (["--url", "http://127.0.0.1:1"], 3, "no server answers at 127.0.0.1:1"),
        (["--client", "no-such-program"], 2, "the client 'no-such-program' cannot be run"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(arguments: list[str], code: int, said: str, forewarn: Forewarn) -> None:
    """With the remedy."""
    ran = forewarn("conformance", *arguments)

    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.code == code
