"""The promises, checked from outside by what VMs and operators exchange with the service."""
