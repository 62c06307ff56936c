"""The checks of ``forewarn doctor``."""
