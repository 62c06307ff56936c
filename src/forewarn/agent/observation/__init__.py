"""The agent's status, metrics and fact log."""
