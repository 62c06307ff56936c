#!/bin/sh
# Start a guest's machine: start.sh VM HOST [INCOMING], run in the network of its site. The site lays down, beside
# this script, what the machine is made of: "site" for all of them, "vms/VM" for each.
set -eu
here=$(dirname "$0")
vm=$1
host=$2
. "$here/site"
. "$here/vms/$vm"
place="$here/$host/$vm"
mkdir -p "$here/$host"
tap="${TAP}${host}"
ip link show "$tap" >/dev/null 2>&1 || ip tuntap add "$tap" mode tap
ip link set "$tap" master "$BRIDGE" up
qemu-system-x86_64 -name "$vm" -machine microvm -accel tcg,thread=multi,tb-size=32 -m "$MEMORY" \
    -nodefaults -no-user-config -display none -no-shutdown -daemonize -pidfile "$place.pid" \
    -kernel "$KERNEL" -initrd "$INITRAMFS" \
    -append "console=ttyS0 quiet printk.time=0 printk.devkmsg=on tsc_early_khz=$TICKS lpj=2000000 tsc=reliable no_timer_check nokaslr reboot=t panic=-1 \
guest.name=$vm guest.address=$ADDRESS guest.approve=$APPROVE" \
    -netdev "tap,id=net,ifname=$tap,script=no,downscript=no" -device "virtio-net-device,netdev=net,mac=$MAC" \
    -chardev "socket,id=console,path=$place.console,server=on,wait=off,logfile=$place.log,logappend=on" \
    -serial chardev:console \
    -qmp "unix:$place.qmp,server=on,wait=off" -qmp "unix:$place.kit,server=on,wait=off" \
    -D "$place.words" ${3:+-incoming "$3"} 2>>"$place.words" || {
    cat "$place.words" >&2
    exit 1
}
