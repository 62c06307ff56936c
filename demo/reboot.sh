#!/bin/sh
# Reboot a host: reboot.sh HOST COMMAND. Machines that still run there end with it, and how many did is written down.
set -eu
host="$(dirname "$0")/$1"
ended=0
for file in "$host"/*.pid; do
    [ -e "$file" ] || continue
    process=$(cat "$file")
    # A machine that was killed leaves its file behind, and its number may be another process's now.
    if grep -qsF "$file" "/proc/$process/cmdline"; then
        kill -KILL "$process"
        ended=$((ended + 1))
    fi
done
echo "$ended" >>"$host/reboots"
