"""The agent in the VM: receives scheduled events, runs handlers, approves events and undoes the handlers' work."""
