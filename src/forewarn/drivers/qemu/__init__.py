"""Driver for plain QEMU processes, controlled over QMP."""
