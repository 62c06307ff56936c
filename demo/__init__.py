"""Small real guests for the tests and for `make demo`: Debian's kernel, a busybox initramfs, QEMU without KVM."""
