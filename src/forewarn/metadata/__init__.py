"""Metadata service: the HTTP endpoint that VMs call."""
