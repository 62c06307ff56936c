"""Whether a server, or a client, keeps the rules of the protocol: seen from outside, by whoever wrote it."""
