"""Identifiers and secrets: random, well-formed, and repeatable where a simulation asks for it."""

import os
from collections.abc import Iterator
from random import Random
from uuid import RFC_4122, UUID

import pytest

from forewarn import randomness


@pytest.fixture(autouse=True)
def _the_systems_source() -> Iterator[None]:
    yield
    randomness.use_source(os.urandom)


def test_identifiers_are_random_uuids() -> None:
    """Version 4 of RFC 4122, each another."""
    ids = [randomness.new_id() for _ in range(100)] + [randomness.new_uuid() for _ in range(100)]

    assert len(set(ids)) == 200
    assert {(UUID(id_).version, UUID(id_).variant) for id_ in ids} == {(4, RFC_4122)}
    assert (len(ids[0]), str(UUID(ids[-1]))) == (32, ids[-1])


def test_a_seeded_source_repeats_itself() -> None:
    """Everything is drawn from it: ids, secrets and fractions."""

    def draw() -> list[object]:
        randomness.use_source(Random(7).randbytes)
        return [
            randomness.new_id(),
            randomness.secret_bytes(),
            randomness.secret_text(),
            randomness.random_fraction(),
        ]

    assert draw() == draw()
