"""What ``forewarn emulate`` shows, and the keys it listens to."""
