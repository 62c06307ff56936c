"""The driver for plain QEMU processes, spoken to over QMP: one concept a file, ``driver`` joins them."""
