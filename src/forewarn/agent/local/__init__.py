"""The agent's local socket for programs on the same VM: address, protocol and server."""
