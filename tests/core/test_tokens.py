"""Who may come in, and who is told: the rules of tokens and subscriptions."""

import pytest
from msgspec.structs import replace

from forewarn.core.commands import (
    ChangeFleet,
    CreateToken,
    RecordDelivered,
    RecordTest,
    RemoveSubscription,
    RevokeToken,
    SetSubscription,
)
from forewarn.core.errors import Refused, Unknown
from forewarn.core.facts import (
    AnyFact,
    Delivered,
    SubscriptionRemoved,
    SubscriptionSet,
    TokenCreated,
    TokenRevoked,
)
from forewarn.core.model import Role, Subscription, SubscriptionKind, Token
from tests.core.harness import ANN, NOON, FleetHarness, kinds

FLEET = "ann declares: group web availability-set; vm web-0 in web"
ADA = Token("t1", "ada", Role.OPERATOR, "hash", NOON)
HOOK = Subscription("s1", "chat", SubscriptionKind.WEBHOOK, "https://example.org/hook")


class TokenHarness(FleetHarness):
    """A fleet with a group ``web``, whose keys are kept."""

    def __init__(self) -> None:
        super().__init__(FLEET)

    def create(self, token: Token, replaces: str = "") -> tuple[AnyFact, ...]:
        return self.give(CreateToken(id="c", by=ANN, token=token, replaces=replaces))

    def revoke(self, token: str) -> tuple[AnyFact, ...]:
        return self.give(RevokeToken(id="c", by=ANN, token=token))

    def subscribe(self, subscription: Subscription) -> tuple[AnyFact, ...]:
        return self.give(SetSubscription(id="c", by=ANN, subscription=subscription))

    def deliver(self, **revisions: int) -> tuple[AnyFact, ...]:
        return self.give(RecordDelivered(id="c", by=ANN, revisions=revisions))


def test_a_token_opens_until_it_is_revoked() -> None:
    """What is not in force cannot be revoked."""
    harness = TokenHarness()

    assert harness.create(ADA) == (TokenCreated(ADA),)
    assert harness.revoke("t1") == (TokenRevoked("t1"),)
    with pytest.raises(Unknown, match="there is no token 't1'"):
        harness.revoke("t1")


@pytest.mark.parametrize("name", ["a/b", "/", ".", ".."])
def test_a_name_that_a_path_cannot_hold_is_refused(name: str) -> None:
    """A request that revokes or removes names it there, and is recognised by its path when it is repeated."""
    harness = TokenHarness()

    with pytest.raises(Refused, match=r"a token's name contains no '/', and is not '\.' or '\.\.'; it is"):
        harness.create(replace(ADA, name=name))
    with pytest.raises(Refused, match=r"a subscription's name contains no '/'"):
        harness.subscribe(replace(HOOK, name=name))


def test_a_token_of_an_earlier_release_keeps_its_name_with_another_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name was not refused then."""
    harness = TokenHarness()
    old = replace(ADA, name="a/b")
    with monkeypatch.context() as earlier:
        earlier.setattr("forewarn.core.tokens._check_name", lambda *_: None)
        harness.create(old)
    new = replace(old, hash="other")

    assert harness.create(new, replaces="t1") == (TokenRevoked("t1"), TokenCreated(new))


@pytest.mark.parametrize("token", [replace(ADA, id="t2"), replace(ADA, name="bob")], ids=["name", "id"])
def test_a_name_and_an_id_are_one_tokens_alone(token: Token) -> None:
    """So that the record tells who did what."""
    harness = TokenHarness()
    harness.create(ADA)

    with pytest.raises(Refused, match="already; revoke it first, or choose another name"):
        harness.create(token)


def test_a_token_may_take_anothers_place_and_name() -> None:
    """The old one ends in the same entry; of one that is not there nobody takes the place."""
    harness = TokenHarness()
    harness.create(ADA)
    new = replace(ADA, id="t2")

    assert harness.create(new, replaces="t1") == (TokenRevoked("t1"), TokenCreated(new))
    with pytest.raises(Unknown, match="there is no token 't1'"):
        harness.create(replace(ADA, id="t3"), replaces="t1")


def test_who_takes_a_place_still_needs_a_name_of_its_own() -> None:
    """Only that of the token it replaces is free."""
    harness = TokenHarness()
    harness.create(ADA)
    harness.create(replace(ADA, id="t2", name="bob"))

    with pytest.raises(Refused, match="there is a token named 'bob' already"):
        harness.create(replace(ADA, id="t3", name="bob"), replaces="t1")


@pytest.mark.parametrize(
    ("role", "groups"),
    [(Role.OWNER, ()), (Role.OPERATOR, ("web",)), (Role.VIEWER, ("web",))],
)
def test_an_owner_names_groups_and_nobody_else_does(role: Role, groups: tuple[str, ...]) -> None:
    """An owner of nothing, or an operator of one group, would not be what it seems."""
    with pytest.raises(Refused, match="an owner's token names the groups it is for, and no other token names any"):
        TokenHarness().create(replace(ADA, role=role, groups=groups))


def test_an_owners_groups_are_there() -> None:
    """A name that is mistyped would open nothing, or one day something else."""
    harness = TokenHarness()
    owner = replace(ADA, role=Role.OWNER, groups=("web",))

    assert harness.create(owner) == (TokenCreated(owner),)
    with pytest.raises(Unknown, match="there is no group 'wbe'; did you mean 'web'"):
        harness.create(replace(owner, id="t2", name="bob", groups=("wbe",)))


@pytest.mark.parametrize("name", ["", "   ", "two\nlines", "ada ", " ada", "ada\u200b", "a\u202eda", "a" * 501])
def test_a_token_has_a_name_that_a_line_can_hold(name: str) -> None:
    """It stands in the record and in the log, and no reader takes it for another; so does a subscription's."""
    with pytest.raises(Refused):
        TokenHarness().create(replace(ADA, name=name))
    with pytest.raises(Refused):
        TokenHarness().subscribe(replace(HOOK, name=name))


def test_a_token_gets_another_secret_whatever_became_of_its_groups() -> None:
    """A secret that leaked is replaced also after a group was removed; no other group is added on the way."""
    harness = TokenHarness()
    owner = replace(ADA, role=Role.OWNER, groups=("web",))
    harness.create(owner)
    harness.give(ChangeFleet(id="c", by=ANN, removed_groups=("web",), removed_vms=("web-0",)))

    assert harness.create(replace(owner, hash="new"), replaces="t1")
    with pytest.raises(Unknown, match="there is no group 'db'"):
        harness.create(replace(owner, groups=("web", "db")), replaces="t1")


def test_somebody_is_told_until_it_is_taken_out() -> None:
    """The same wish again changes nothing; another under the same id takes its place."""
    harness = TokenHarness()
    other = replace(HOOK, target="http://example.org:8080/")

    assert harness.subscribe(HOOK) == (SubscriptionSet(HOOK),)
    assert harness.subscribe(HOOK) == ()
    assert harness.subscribe(other) == (SubscriptionSet(other),)
    remove = RemoveSubscription(id="c", by=ANN, subscription="s1")
    assert harness.give(remove) == (SubscriptionRemoved("s1"),)
    with pytest.raises(Unknown, match="there is no subscription 's1'"):
        harness.give(remove)


def test_two_subscriptions_do_not_share_a_name() -> None:
    """Else nobody knew which of them is parked."""
    harness = TokenHarness()
    harness.subscribe(HOOK)

    with pytest.raises(Refused, match="there is a subscription 'chat' already"):
        harness.subscribe(replace(HOOK, id="s2"))


def test_a_subscription_is_for_groups_that_are_there() -> None:
    """One for another would tell nothing, silently."""
    harness = TokenHarness()

    assert harness.subscribe(replace(HOOK, groups=("web",)))
    with pytest.raises(Unknown, match="there is no group 'db'"):
        harness.subscribe(replace(HOOK, groups=("db",)))


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (SubscriptionKind.WEBHOOK, "ftp://example.org/"),
        (SubscriptionKind.WEBHOOK, "example.org/hook"),
        (SubscriptionKind.SLACK, "https:///hook"),
        (SubscriptionKind.TEAMS, "https://example.org:99999/"),
        (SubscriptionKind.WEBHOOK, "https://example.org:0/"),
        (SubscriptionKind.WEBHOOK, "https://example.org/a b"),
        (SubscriptionKind.WEBHOOK, "https://example.org\0/"),
        (SubscriptionKind.MAIL, "ops"),
        (SubscriptionKind.MAIL, "ops@"),
        (SubscriptionKind.MAIL, "@example.org"),
        (SubscriptionKind.MAIL, "ops @example.org"),
        (SubscriptionKind.MAIL, "ops\0@example.org"),
    ],
)
def test_what_cannot_be_reached_is_refused_with_how_to_write_it(kind: SubscriptionKind, target: str) -> None:
    """When it is set, not when something happens."""
    with pytest.raises(Refused, match=r"is not a valid (web|mail) address; write it like"):
        TokenHarness().subscribe(replace(HOOK, kind=kind, target=target))


def test_mail_goes_to_an_address() -> None:
    """Which is not a valid web address."""
    mail = replace(HOOK, kind=SubscriptionKind.MAIL, target="ops@example.org")

    assert TokenHarness().subscribe(mail) == (SubscriptionSet(mail),)


def test_how_far_somebody_was_told_never_goes_back() -> None:
    """What is known already, or is of nobody, is not recorded."""
    harness = TokenHarness()
    harness.subscribe(HOOK)

    assert harness.deliver(s1=7, s9=7) == (Delivered({"s1": 7}),)
    assert harness.deliver(s1=7) == ()
    assert harness.deliver(s1=6) == ()
    assert harness.deliver(s1=8) == (Delivered({"s1": 8}),)


def test_a_test_of_a_subscription_changes_nothing() -> None:
    """One that is not there cannot be tested."""
    harness = TokenHarness()
    harness.subscribe(HOOK)

    assert harness.give(RecordTest(id="c", by=ANN, subscription="s1")) == ()
    with pytest.raises(Unknown, match="there is no subscription 's2'"):
        harness.give(RecordTest(id="c", by=ANN, subscription="s2"))


def test_a_token_keeps_a_name_of_an_earlier_release_but_gets_no_such_name() -> None:
    """Its secret can be replaced; a new name is checked."""
    harness = TokenHarness()
    harness.fleet.evolve(TokenCreated(replace(ADA, name="ada ")))
    harness.create(replace(ADA, name="ada ", hash="other"), replaces="t1")

    with pytest.raises(Refused, match="visible characters"):
        harness.create(replace(ADA, name=" ada", hash="another"), replaces="t1")


def test_a_rotation_with_an_overlap_revokes_nothing() -> None:
    """The old secret stays valid, so what was opened with it stays open."""
    harness = FleetHarness()
    token = Token("t1", "ada", Role.VIEWER, "a" * 64, NOON)
    harness.give(CreateToken(id="c", by=ANN, token=token))
    renewed = replace(token, hash="b" * 64, previous_hash=token.hash, previous_until=NOON)

    assert kinds(harness.give(CreateToken(id="d", by=ANN, token=renewed, replaces="t1"))) == ["TokenCreated"]
    again = replace(token, hash="c" * 64)
    assert kinds(harness.give(CreateToken(id="e", by=ANN, token=again, replaces="t1"))) == [
        "TokenRevoked",
        "TokenCreated",
    ]
