"""The rules: what may happen to which VM, and when. Pure: no I/O, no clock, no randomness."""
