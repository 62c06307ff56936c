"""Lists, decides on and approves the scheduled events of one VM: python3 events.py NAME [once]."""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("SCHEDULED_EVENTS_URL", "http://169.254.169.254/metadata/scheduledevents")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # metadata never goes through a proxy


def ask(body=None):
    request = urllib.request.Request(
        f"{URL}?api-version=2020-07-01",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Metadata": "true"},
    )
    with DIRECT.open(request, timeout=10) as answer:
        content = answer.read()
    return json.loads(content) if body is None else None


def look(vm, done_with):
    for event in ask()["Events"]:
        is_mine = vm.lower() in (name.lower() for name in event["Resources"])
        if not is_mine or event["EventStatus"] != "Scheduled" or event["EventId"] in done_with:
            continue
        print(f"{event['EventType']} of {vm}, not before {event['NotBefore']}", flush=True)
        is_short = event["EventType"] == "Freeze" and 0 <= event["DurationInSeconds"] < 10
        if not is_short:
            print(f"getting ready for {event['EventType']}", flush=True)  # stop taking work, save what must be saved
        ask({"StartRequests": [{"EventId": event["EventId"]}]})
        done_with.add(event["EventId"])
        print(f"approved {event['EventId']}", flush=True)


def main(vm, once=""):
    done_with = set()
    while True:
        try:
            look(vm, done_with)
        # The endpoint may be busy, or its answer cut off; the next look comes soon.
        except (OSError, ValueError, http.client.HTTPException) as error:
            print(f"not answered: {error}", file=sys.stderr)
        if once == "once":
            return
        time.sleep(1)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: events.py NAME [once]")
    main(*sys.argv[1:])
