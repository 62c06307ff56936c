"""Tokens: what is kept of them, who is let in, and how guessers are slowed down."""

import hashlib
from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.clocks import ManualClock
from forewarn.control.problems import TooManyFailures, Unauthenticated
from forewarn.control.server.authentication import _MOST_ADDRESSES, Authenticator, mint
from forewarn.core.facts import TokenCreated, TokenRevoked
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind, Role


class AuthenticatorHarness:
    """An authenticator, and a fleet with one token of an owner."""

    def __init__(self, lasts: timedelta | None = None, most_remembered: int = 10_000) -> None:
        self.clock = ManualClock()
        self.authenticator = Authenticator(self.clock.now, self.clock.seconds, most_remembered)
        self.fleet = Fleet()
        self.token, self.shown = mint("ada", Role.OWNER, ("web",), self.clock.now(), lasts)
        self.fleet.evolve(TokenCreated(self.token))

    def authenticate(self, shown: str, address: str = "192.0.2.1") -> str:
        return self.authenticator.authenticate(self.fleet, f"Bearer {shown}" if shown else "", address).caller.name

    def guess(self, times: int, shown: str = "fw_0123456789abcdef_" + "x" * 43, address: str = "192.0.2.1") -> None:
        for _ in range(times):
            with pytest.raises(Unauthenticated):
                self.authenticate(shown, address)


def test_only_the_hash_of_a_secret_is_kept() -> None:
    """What is journalled opens nothing."""
    harness = AuthenticatorHarness()
    secret = harness.shown.split("_", 2)[2]

    assert harness.token.hash == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in repr(harness.token)


def test_a_token_tells_who_bears_it_and_from_where() -> None:
    """Name, role, groups and address stand in the record afterwards."""
    harness = AuthenticatorHarness()
    principal = harness.authenticator.authenticate(harness.fleet, f"bearer {harness.shown}", "192.0.2.7")

    assert (principal.role, principal.groups, principal.token) == (Role.OWNER, frozenset({"web"}), harness.token.id)
    assert (principal.caller.kind, str(principal.caller)) == (CallerKind.OWNER, "ada (192.0.2.7)")


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Basic YWRhOmFkYQ==", "Bearer fw_x_y", "Bearer {id}", "{shown}", "Bearer {shown}x"],
)
def test_whatever_is_no_token_in_force_lets_nobody_in(authorization: str) -> None:
    """In the same words for every reason."""
    harness = AuthenticatorHarness()
    with pytest.raises(Unauthenticated, match="send it as 'Authorization: Bearer"):
        harness.authenticator.authenticate(
            harness.fleet, authorization.format(id=harness.token.id, shown=harness.shown), "192.0.2.1"
        )

    assert harness.authenticator.refused == 1


def test_a_right_id_with_a_wrong_secret_lets_nobody_in() -> None:
    """The secret is what counts."""
    harness = AuthenticatorHarness()

    harness.guess(1, f"fw_{harness.token.id}_" + "x" * 43)


def test_a_token_opens_until_it_expires() -> None:
    """Not a moment longer."""
    harness = AuthenticatorHarness(timedelta(hours=1))
    harness.clock.advance(timedelta(minutes=59))
    assert harness.authenticate(harness.shown) == "ada"
    harness.clock.advance(timedelta(minutes=1))
    harness.guess(1, harness.shown)


def test_a_revoked_token_opens_nothing() -> None:
    """From the next request on."""
    harness = AuthenticatorHarness()
    harness.fleet.evolve(TokenRevoked(harness.token.id))
    harness.guess(1, harness.shown)


def test_guessers_wait_longer_each_time() -> None:
    """A few mistakes are free; then a second, then two, and never more than a minute."""
    harness = AuthenticatorHarness()
    harness.guess(5)
    waits = []
    for _ in range(9):
        with pytest.raises(TooManyFailures) as refused:
            harness.authenticate("fw_0123456789abcdef_" + "x" * 43)
        waits.append(refused.value.wait)
        harness.clock.advance(timedelta(seconds=refused.value.wait))
        harness.guess(1)

    assert waits == [2, 3, 5, 9, 17, 33, 61, 61, 61]
    assert harness.authenticator.refused == 5 + 9 * 2


def test_the_secret_of_a_known_token_cannot_be_guessed_while_waiting() -> None:
    """Not even the right one is looked at."""
    harness = AuthenticatorHarness()
    harness.guess(5, f"fw_{harness.token.id}_" + "x" * 43)

    with pytest.raises(TooManyFailures):
        harness.authenticate(harness.shown)
    assert harness.authenticate(harness.shown, "192.0.2.2") == "ada"


def test_guessers_keep_nobody_else_out() -> None:
    """Others at the same address, with tokens of their own, come in."""
    harness = AuthenticatorHarness()
    harness.guess(5)

    assert harness.authenticate(harness.shown) == "ada"


def test_requests_without_any_token_do_not_count_as_guesses() -> None:
    """A browser that is asked to log in has done no wrong."""
    harness = AuthenticatorHarness()
    harness.guess(20, "")


def test_old_mistakes_are_forgotten() -> None:
    """After a quarter of an hour without one."""
    harness = AuthenticatorHarness()
    harness.guess(4)
    harness.clock.advance(timedelta(minutes=16))
    harness.guess(4)


def test_the_memory_of_guessers_is_bounded() -> None:
    """However many addresses they come from; those of long ago are forgotten first."""
    harness = AuthenticatorHarness(most_remembered=10)
    for number in range(50):
        harness.guess(1, address=f"192.0.2.{number}")

    assert [address for address, _ in harness.authenticator._failures] == [
        f"192.0.2.{number}" for number in range(40, 50)
    ]


def test_a_secret_that_was_rotated_away_is_valid_for_the_overlap() -> None:
    """Beside the new one; after that, or without an overlap, the new one alone."""
    harness = AuthenticatorHarness()
    new, shown = mint("ada", Role.OWNER, ("web",), harness.clock.now(), None, harness.token.id)
    until = harness.clock.now() + timedelta(hours=1)
    harness.fleet.evolve(TokenCreated(replace(new, previous_hash=harness.token.hash, previous_until=until)))

    assert harness.authenticate(harness.shown) == harness.authenticate(shown) == "ada"
    harness.clock.advance(timedelta(hours=1))
    assert harness.authenticate(shown) == "ada"
    harness.guess(1, harness.shown)


def test_refusals_are_counted_by_address_for_a_bounded_number_of_them() -> None:
    """Where there are too many, those with the most refusals stay."""
    authenticator = AuthenticatorHarness().authenticator
    authenticator._count("192.0.2.1")
    for number in range(2 * _MOST_ADDRESSES - 1):
        authenticator._count(f"2001:db8::{number:x}")
    assert len(authenticator.refused_by) == 2 * _MOST_ADDRESSES

    authenticator._count("192.0.2.1")
    authenticator._count("192.0.2.2")
    assert len(authenticator.refused_by) == _MOST_ADDRESSES
    assert authenticator.refused_by["192.0.2.1"] == 2
