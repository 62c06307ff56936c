"""The fleet file: parse it, compare it with the recorded fleet, write it."""
