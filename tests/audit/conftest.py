"""A control API that answers, for the tests of this folder."""

from tests.control.conftest import client, harness

__all__ = ["client", "harness"]
