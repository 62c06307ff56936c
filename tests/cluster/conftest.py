"""The database of clusters of real processes."""

from tests.postgresql import database, postgresql

__all__ = ["database", "postgresql"]
