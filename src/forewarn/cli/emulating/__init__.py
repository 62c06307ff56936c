"""Output and keyboard input of ``forewarn emulate``."""
