"""Every test here has a database of its own."""

from tests.postgresql import database, empty_database, postgresql

__all__ = ["database", "empty_database", "postgresql"]
