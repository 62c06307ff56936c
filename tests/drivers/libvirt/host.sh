#!/bin/sh
# host.sh DIRECTORY NAME UUID: a machine of its own for libvirtd; run it in new network, mount and UTS namespaces.
set -eu
directory=$1 name=$2 uuid=$3

mount --make-rprivate /
hostname "$name"
for place in /run /etc/libvirt /var/cache/libvirt /var/lib/libvirt /var/log/libvirt; do
    mkdir -p "$place"
    mount -t tmpfs tmpfs "$place"
done
printf '127.0.0.1 localhost\n10.99.0.1 h1\n10.99.0.2 h2\n' >"$directory/hosts"
mount --bind "$directory/hosts" /etc/hosts
ip link set lo up

cp "$directory/qemu.conf" /etc/libvirt/qemu.conf
cat >/etc/libvirt/libvirtd.conf <<END
listen_tls = 0
unix_sock_dir = "$directory"
auth_unix_ro = "none"
auth_unix_rw = "none"
host_uuid = "$uuid"
END
touch "$directory/ready"
exec tail -f /dev/null
