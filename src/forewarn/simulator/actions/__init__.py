"""What a simulation does at which second."""
