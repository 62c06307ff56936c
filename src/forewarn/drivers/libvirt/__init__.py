"""Driver for machines managed by libvirt."""
