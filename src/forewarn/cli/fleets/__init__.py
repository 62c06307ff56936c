"""Requests and output of ``forewarn fleet``."""
