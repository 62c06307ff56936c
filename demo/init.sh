#!/bin/busybox sh
# The one script of a guest: it sets up its network, asks for its events, approves on request, and says what it
# sees on the serial console, where it also takes orders. Lines that begin with "@" are for the kit.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -echo
for module in /modules/*.ko; do insmod "$module"; done

name=guest
address=10.0.0.2/24
poll=500000
echo never >/run/approve
for word in $(cat /proc/cmdline); do
    case "$word" in
    guest.name=*) name=${word#*=} ;;
    guest.address=*) address=${word#*=} ;;
    guest.approve=*) echo "${word#*=}" >/run/approve ;;
    guest.poll=*) poll=${word#*=} ;;
    esac
done
hostname "$name"
ip link set lo up
ip link set eth0 up
ip address add "$address" dev eth0
ip route add 169.254.169.254 dev eth0

# Said through the kernel's log, which writes to the console by itself: a terminal waits for an interrupt, and one that
# falls into a live migration may be lost. What is too long for one line comes in parts.
say() { # WORD TEXT
    local rest="$2"
    while [ ${#rest} -gt 800 ]; do
        echo "<1>@ +$1 $(echo "$rest" | cut -c1-800)" >/dev/kmsg
        rest=$(echo "$rest" | cut -c801-)
    done
    echo "<1>@ $1 $rest" >/dev/kmsg
}

URL='http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01'

approve() { # ID: say that the event may start
    wget -q -O /dev/null --header 'Metadata: true' --header 'Content-Type: application/json' \
        --post-data "{\"StartRequests\":[{\"EventId\":\"$1\"}]}" "$URL" && say approved "$1"
}

scheduled() { # the ids of events that may be approved: "self" for those that name this guest, "any" for all
    sed 's/},{/}\n{/g' /run/document | grep '"EventStatus":"Scheduled"' |
        { if [ "$1" = self ]; then grep "\"$name\""; else cat; fi; } |
        sed -n 's/.*"EventId":"\([^"]*\)".*/\1/p'
}

# What comes in on the console is done as it is written, so that a test can have a guest do anything. What it prints is
# not shown, for it would fall into the middle of what the guest says.
while read -r order; do eval "$order" >/dev/null 2>&1; done </dev/ttyS0 &

# The power button.
{ dd if=/dev/input/event0 of=/dev/null bs=24 count=1 2>/dev/null && say powerdown && poweroff -f; } &

read -r boot </proc/sys/kernel/random/boot_id
last=
while true; do
    if wget -q -O /run/document --header 'Metadata: true' "$URL" 2>/dev/null; then
        document=$(cat /run/document)
    else
        document=unreachable
    fi
    read -r uptime _ </proc/uptime
    echo "<1>@ clock $uptime $boot" >/dev/kmsg
    if [ "$document" != "$last" ]; then
        say events "$document"
        last=$document
    fi
    rule=$(cat /run/approve)
    if [ "$rule" != never ] && [ "$document" != unreachable ]; then
        for id in $(scheduled "$rule"); do approve "$id"; done
    fi
    usleep "$poll"
done
