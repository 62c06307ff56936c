"""The fleet file: parse it, compare it with the current fleet, format it."""
