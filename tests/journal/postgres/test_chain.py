"""The position in the chain of entries, and how much lies between it and where it began."""

from forewarn.journal.postgres.chain import ChainPosition, StoredEntry


def test_the_size_counts_from_where_it_began() -> None:
    """Bodies and their parts; what was read before does not count any more."""
    position = ChainPosition("the database")
    position.advance([StoredEntry(1, 0, b"one", b"abc", (b"de",)), StoredEntry(2, 0, b"two", b"f")])
    assert (position.at, position.size) == ((2, b"two"), 6)
    position.begin(7, b"seven")

    assert (position.at, position.size) == ((7, b"seven"), 0)
