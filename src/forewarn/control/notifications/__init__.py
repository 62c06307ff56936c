"""Outward notice: what happens to events is told to those outside who subscribed to it."""
