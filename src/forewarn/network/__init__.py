"""The wires between this machine and its guests: where the service is, and who may pretend to be whom."""
