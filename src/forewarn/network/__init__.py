"""Network of this host for its guests: the service's address, and protection against spoofing."""
