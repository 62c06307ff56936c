"""What the agent shows: status, metrics, log."""
