"""Maintenance that asks first: an open, Azure-compatible Scheduled Events service."""

__version__ = "0.1.0"
