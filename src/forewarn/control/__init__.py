"""What operators talk to."""
