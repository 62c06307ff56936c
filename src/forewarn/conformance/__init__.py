"""Conformance checks of servers and clients against the protocol, over HTTP."""
