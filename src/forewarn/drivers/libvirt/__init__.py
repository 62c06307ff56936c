"""The driver for machines that libvirt keeps: one concept a file, ``driver`` joins them."""
