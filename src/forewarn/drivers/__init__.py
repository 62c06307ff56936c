"""What touches machines."""
