"""Where facts are kept: the port, and the journals that stand behind it."""
