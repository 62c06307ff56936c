"""The HTTP client that all of Forewarn shares: a codec without I/O, a blocking connection, and single requests."""
