"""Runs the agent: the loop, handler calls, the memory file."""
