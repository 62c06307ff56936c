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

STANDING = {
    "keep-alive": "The goal is 1.0. About four fifths of the time of both servers is the kernel's: reading, writing"
    " and waiting for sockets. What is left to us is one lookup of the request's bytes, one of the caller's address,"
    " and a few calls of Python functions; they cost about as much as all that nginx does in C.",
    "connections": "A fresh connection that brings a plain request is accepted, answered and closed without a"
    " transport being built for it.",
    "mixed": "Callers that send what nobody sent before pay for the reading of their request once; that is warmed up"
    " before it is measured, as are the connections themselves.",
    "latency": "A change of the fleet is decided, taken in and published in one go each, because it happens whole or"
    " not at all. Its pause grows with its size, so a large fleet file is best applied when a pause does no harm.",
}
"""What is worth knowing of a part, whatever its figures are."""

SHORTFALLS = {
    "commands": "A command costs 20 microseconds or so of Python beside its share of the commit: it is decided (10 to"
    " 15), encoded, and its caller is woken. Bare SQLite spends 6 or 7 microseconds on a row where a commit takes"
    " less than half a millisecond, because a virtual disk acknowledges it from memory. All 64 callers wait while"
    " their commit is under way, so nothing can be decided meanwhile, and what decisions and commit take adds up."
    " Where a commit takes 1.5 milliseconds or more, as on most disks that survive a power failure, the ratio is"
    " above 0.5.",
    "latency": "Everything that goes on beside the answers shares one core with them here; a service that may use a"
    " second one has its journal's threads and the folding of snapshots there.",
}
"""Why a part falls short, told only when it does."""
