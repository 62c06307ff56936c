"""Drivers: carry out the impact of events on machines."""
