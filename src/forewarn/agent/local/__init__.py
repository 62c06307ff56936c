"""The agent's local socket."""
