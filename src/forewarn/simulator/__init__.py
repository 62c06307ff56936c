"""Runs whole systems on simulated time, with faults, and checks every promise from outside."""
