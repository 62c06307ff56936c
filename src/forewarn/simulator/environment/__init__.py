"""What is simulated around the real code: time, threads, network, disks and machines."""
