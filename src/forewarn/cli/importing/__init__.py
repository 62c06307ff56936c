"""What ``forewarn import`` is made of."""
