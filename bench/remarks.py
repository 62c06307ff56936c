"""What the page of benchmarks says in words: how each part measures, and why a figure falls short."""

METHODS = {
    "keep-alive": "One VM asks for its empty document over kept connections (wrk, one thread). nginx has one worker"
    " and makes the same checks: the caller's address (a map of 1,000), the Metadata header, X-Forwarded-For, the"
    " api-version. Both send the same body and ETag in equally many bytes. The ratio is nginx's CPU per request over"
    " ours: 1.0 is level, more is better.",
    "connections": "As above, but every request says `Connection: close` and comes on a connection of its own.",
    "mixed": "10,000 VMs with an address each in 127.0.0.0/8 ask in turn, 64 requests under way at a time, with 1,000"
    " different header sets, all seven api-versions, and If-None-Match (answered with 304) in 20 % of the requests."
    " nginx knows the same 10,000 addresses and ETags. Then the service alone, with fleets of other sizes.",
    "memory": "Every VM is enrolled and has asked once; there are no events and no connections. The mixed fleet is"
    " 40 % standalone VMs, 30 % in availability sets of 5 and 30 % in scale sets of 100, 20 VMs to a host;"
    " `bench/fleets.py` makes it. The other fleet is the most that VMs can cost: each alone in its group,"
    " with a vm_id of its own.",
    "commands": "64 callers, each of which waits for its answer before it gives the next command. Bare SQLite commits"
    " 64 rows at a time on the same disk, of the same sizes, with the same pragmas (WAL, synchronous = FULL), and"
    " does nothing else. The ratio is commands over rows per second.",
    "latency": "GETs come at a fixed rate, whatever the answers take, and each counts from when it should have been"
    " sent. Phases with and without work beside them take turns.",
    "history": "Two million events of 100,000 VMs, each announced, approved, started, attempted and completed, with"
    " the index of history reaching to the last of them. A question reads the journal's files, which the system"
    " keeps in memory as far as it can, and writes the answer as JSON lines.",
}

REMARKS: dict[str, str] = {}
