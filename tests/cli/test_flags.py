"""What is wrong is said in the words that were typed: the flag or the argument, not the field of a request."""

import pytest

from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness

LONG = "x" * 600
WRONG = [
    ("vm restart web-0 --not-before soon", "'--not-before': 'soon' is not a valid time"),
    ("vm restart web-0 --not-before 2020-01-01T00:00:00Z", "--not-before 2020-01-01T00:00:00+00:00 is too early"),
    ("vm freeze web-0 --not-before 9999-12-31T23:59:59Z", "--not-before 9999-12-31T23:59:59+00:00 is too late"),
    ("vm freeze web-0 --duration x", "'--duration': 'x' is not a whole number"),
    ("vm freeze web-0 --duration 9999999", "'--duration': 9999999 is not in the range -1<=x<=604800"),
    (f"vm freeze web-0 --description {LONG}", "--description: it must have at most 500 characters"),
    ("vm freeze web-0 --description a\nb", "--description: it must be one line, without control characters"),
    ("host freeze h1 --not-before 2020-01-01T00:00:00Z", "--not-before 2020-01-01T00:00:00+00:00 is too early"),
    (f"host freeze h1 --description {LONG}", "--description: it must have at most 500 characters"),
    ("host degrade h1 --fails-within x", "'--fails-within': 'x' is not a valid duration"),
    (f"host degrade h1 --fails-within 7d --description {LONG}", "--description: it must have at most 500 characters"),
    ("host degrade h1 --fails-within 9000000d", "--fails-within"),
    (f"host fail h1 --yes --description {LONG}", "--description: it must have at most 500 characters"),
    ("event postpone last --by x", "'--by': 'x' is not a valid duration"),
    ("event postpone last --by 90d", "--by: it must be at most 30d"),
    (f"event postpone last --by 1m --reason {LONG}", "--reason: it must have at most 500 characters"),
    ("group set web postpone_limit=99d", "postpone_limit: it must be at most 30d"),
    ("group set web quorum=99999999", "quorum: it must be at most 1000000"),
    ("spot reclaim --count 0", "'--count': 0 is not in the range"),
    ("spot reclaim", "--count N or --host NAME"),
    ("token create x --role owner", "--role owner needs --group NAME"),
    ("token create x --role viewer --group web", "--role owner needs --group NAME"),
    ("token create x --role viewer --expires-in soon", "'--expires-in': 'soon' is not a valid duration"),
    ("token create x --role viewer --expires-in 99999d", "--expires-in: it must be at most 36500d"),
    (f"token create {LONG} --role viewer", "NAME: it must have at most 500 characters"),
    ("subscription add s https://example.org --type bang", "'bang' is not one of Freeze, Reboot, Redeploy"),
    (f"subscription add s https://{LONG * 4}", "URL|ADDRESS: it must have at most 2000 characters"),
    ("history --since x", "'--since': 'x' is not a valid time"),
    ("vm add new --address x", "--address is 'x', expected an IPv4 or IPv6 address"),
    ("vm add new --mac-address x", "--mac-address is 'x', expected a MAC address"),
    ("vm add new --public-ip-address x", "--public-ip-address is 'x'"),
    ("vm add new --ipv6-address x", "--ipv6-address is 'x'"),
    ("vm add new --update-domain 99999", "'--update-domain': 99999 is not in the range 0<=x<=9999"),
    ("vm add new --zone a\nb", "--zone is 'a\\nb', expected a text such as"),
    ("vm add .new", "name is '.new', expected a name"),
]


@pytest.mark.parametrize(("typed", "said"), WRONG, ids=[typed[:60].replace("\n", " ") for typed, _ in WRONG])
def test_an_error_names_the_flag_that_was_given(
    harness: ApiHarness, forewarn: Forewarn, typed: str, said: str
) -> None:
    """And nothing that only a request has."""
    harness.ask("POST", "/v1/vms/db/operations", {"operation": "freeze"})
    answer = forewarn(*typed.split(" "))

    assert said in answer.err
    for word in ("body.", "not_before", "Expected `", "regex"):
        assert word not in answer.err
