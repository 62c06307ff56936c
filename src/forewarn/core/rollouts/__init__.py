"""Rollouts: one operation on many hosts, in waves, without breaking a promise to any VM."""
