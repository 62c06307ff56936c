#!/usr/bin/env bash
# Lists, decides on and approves the scheduled events of one VM: events.sh NAME [once]
set -euo pipefail

vm=${1:?"usage: events.sh NAME [once]"}
url=${SCHEDULED_EVENTS_URL:-http://169.254.169.254/metadata/scheduledevents}?api-version=2020-07-01
declare -A done_with=()

ask() { curl --silent --show-error --fail --noproxy '*' --max-time 10 -H 'Metadata: true' "$@" "$url"; }

look() {
  local document id type seconds not_before
  document=$(ask) || return 0 # the endpoint may be busy; the next look comes soon
  while IFS=$'\t' read -r id type seconds not_before; do
    [[ -n $id && -z ${done_with[$id]:-} ]] || continue
    echo "$type of $vm, not before $not_before"
    if [[ $type != Freeze || $seconds -lt 0 || $seconds -ge 10 ]]; then
      echo "getting ready for $type" # stop taking work, save what must be saved
    fi
    ask --data "{\"StartRequests\": [{\"EventId\": \"$id\"}]}" >/dev/null || continue # the next look tries again
    done_with[$id]=1
    echo "approved $id"
  done < <(jq --raw-output --arg vm "$vm" '
    .Events[]
    | select(.EventStatus == "Scheduled" and any(.Resources[]; ascii_downcase == ($vm | ascii_downcase)))
    | [.EventId, .EventType, .DurationInSeconds, .NotBefore] | @tsv' <<<"$document")
}

look
while [[ ${2:-} != once ]]; do
  sleep 1
  look
done
