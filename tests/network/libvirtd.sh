#!/bin/sh
# libvirtd.sh DIRECTORY HOOK: libvirtd of the network that it is run in, with HOOK; run it in a new mount namespace.
set -eu
directory=$1 hook=$2

mount --make-rprivate /
for place in /run /etc/libvirt /var/cache/libvirt /var/lib/libvirt /var/log/libvirt; do
    mkdir -p "$place"
    mount -t tmpfs tmpfs "$place"
done
mkdir -p /etc/libvirt/hooks/network.d
install -m 755 "$hook" /etc/libvirt/hooks/network.d/forewarn
cat >/etc/libvirt/libvirtd.conf <<END
listen_tls = 0
unix_sock_dir = "$directory"
auth_unix_ro = "none"
auth_unix_rw = "none"
END
exec /usr/sbin/libvirtd --pid-file "$directory/libvirtd.pid"
