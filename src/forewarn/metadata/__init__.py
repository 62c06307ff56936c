"""What VMs talk to."""
