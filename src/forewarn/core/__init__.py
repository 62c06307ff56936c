"""The rules: what may happen to whom, when. Pure: no I/O, no clock, no randomness."""
