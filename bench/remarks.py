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
    "growth": "A mixed fleet of 2,000 VMs with `--hurry 60`. Over the control socket 20 VMs a second are restarted;"
    " each asks for its document on a new connection, every second one approves, and the simulated driver"
    " carries the restart out. The resident memory of the service is read every 10 s.",
    "commands": "64 callers, each of which waits for its answer before it gives the next command. Bare SQLite commits"
    " 64 rows at a time on the same disk, of the same sizes, with the same pragmas (WAL, synchronous = FULL), and"
    " does nothing else. The ratio is commands over rows per second.",
    "approvals": "VMs approve restarts that were announced before, 64 at a time, each on a new connection from its"
    " own address; `bench/generator.c` makes the load. The version before is the last one before the write path was"
    " made faster, `BASELINE` in `bench/baseline.py`; it has a copy of the same journal, and both take turns. The"
    " generator's own ceiling is the same load against nginx, which answers without looking. Afterwards every"
    " acknowledged approval is looked for in the journals. GETs beside a storm come at a fixed rate, as in the part"
    " `latency`, for as long as the storm lasts.",
    "fleet-file": "A start loads the journal from its snapshot and begins to answer; each is its own process, and"
    " starts with and without the file take turns. The file did not change since it was applied: it is recognised by"
    " the digest of its bytes, and not parsed.",
    "latency": "GETs come at a fixed rate, whatever the answers take, and each counts from when it should have been"
    " sent. Phases with and without work beside them take turns.",
    "history": "Two million events of 100,000 VMs, each announced, approved, started, attempted and completed, with"
    " the index of history reaching to the last of them. A question reads the journal's files, which the system"
    " keeps in memory as far as it can, and writes the answer as JSON lines.",
    "listeners": "1,000 connections follow the changes of the control API as server-sent events; the time between the"
    " first and the last of them to read the same change.",
    "long-polls": "Scale sets of 100 VMs; every VM waits for a change of its document (`Prefer: wait`) on a"
    " connection of its own, from its own address. The change is an operation on a host that has one VM of each"
    " scale set. One process on the other core holds all connections, and the time it takes to read the answers is"
    " in the figure too.",
    "crowd": "Each VM approves its own restart over HTTP, 64 requests under way at a time, each on a new connection"
    " (`bench/generator.c`). Afterwards every acknowledged approval is looked for in the journal, and an empty"
    " journal is given the same entries, 64 at a time, with nothing else to do.",
    "agent": "`forewarn agent` with five handlers, its socket and its metrics, beside a service that holds its"
    " question for 55 s at a time; all modules compiled, as an installed package has them. An interpreter that waits"
    " for input runs at the same time. For the way to the first handler the event's rule names a `command` that is a"
    " shell, which writes one word into a pipe and starts nothing else: whoever reads the pipe sees the program run."
    " `forewarn events` is a process for every round, on a core of its own, and so is each of its parts.",
    "machines": "A guest of 96 MiB on QEMU without KVM, in a network namespace of its own, that asks for its events"
    " twice a second. The service has a core of its own, and calls the qemu driver. A neighbour approves a freeze of"
    " the guest; the first that the driver does when it is called is to open its record of the event, of which the"
    " kernel tells the bench. Moves are then made by the driver and by plain QMP in turns, to and fro between two"
    " hosts of the same machine: each starts the receiving QEMU, sends the guest's memory, waits until it runs there,"
    " and ends the QEMU that it left.",
    "workers": "A service with two workers and one of a single process, both on the same core, are asked for the"
    " empty document in turns, 64 requests under way at a time (wrk); the CPU of all processes of a service counts."
    " Then 1,000 VMs hold a connection each to the two workers. Memory is the resident set size of a single worker"
    " and of its leader, with the mixed fleet of the part `memory`.",
    "cluster": "Two nodes on one PostgreSQL, both on one core. VMs approve at the leader and at the follower in turn."
    " The CPU of both nodes and of PostgreSQL is divided by the number of approvals; the follower takes in every"
    " commit in both cases.",
    "rollouts": "Rollouts are planned, and their next waves chosen and announced, in processes of their own, by the"
    " processor's time, with 20 VMs on each host and 50 in each group. Then a service with the mixed fleet rolls out"
    " freezes over all hosts, ten at a time, while VMs ask 1,000 times per second.",
    "simulator": "Whole systems on simulated time, with faults, each exchange checked: the fixed seeds of the tests.",
    "postgresql": "Debian's PostgreSQL on the same machine. 64 callers give commands to a node, each waits for"
    " its answer; pgbench inserts rows of the same size with 64 clients on the same server, in turns. The delay to a"
    " follower counts from before the append until another process, which does nothing but follow the journal, has"
    " read the entry; a node then applies it. The load is that of the journal alone, in a process of its own: the"
    " start of the node, its connections and its first answer are not in it.",
    "dashboard": "A mixed fleet of 100,000 VMs, a service on one core, and Debian's Chromium on the other, driven by"
    " Playwright. A view counts from the request of the page until it is drawn; a change from the request of an"
    " operator until its text is on the page, while 49 other connections follow the changes. A search counts from"
    " Enter in its box until what it found is painted; the memory is that of the browser's process for the page.",
}

STANDING = {
    "keep-alive": "The goal is 1.0. Three quarters of the time of both servers is the kernel's (76 % of ours, 78 % of"
    " nginx's, by perf). Of the rest, the interpreter takes 19 % of our time, and nginx's own code 19 % of its.",
    "connections": "A fresh connection that brings a plain request is accepted, answered and closed without a"
    " transport being built for it.",
    "mixed": "Callers that send what nobody sent before pay for the reading of their request once; that is warmed up"
    " before it is measured, and every kept connection was used twice. When the first requests of 10,000 fresh"
    " connections were counted in, three or fewer on each, an earlier state of the service stood at 0.37.",
    "growth": "By tracemalloc, nearly all of the growth in the first minutes is what the history remembers of"
    " entries that its index on disk does not hold yet: about 300 bytes for each entry, and about three"
    " entries for each restart. A snapshot empties it, after 50,000 entries or 64 MiB; at this rate that"
    " is after fourteen minutes. The next entries then use the same memory. The ids of the last 200,000"
    " requests are remembered too, about 190 bytes each, so that none is carried out twice. In a shorter"
    " run with a snapshot every 2,000 entries the objects of the service level off: tracemalloc finds"
    " 40.5 MiB in the third minute and 40.3 MiB in the fifth (6,096 restarts in all).",
    "latency": "A change of 1,000 VMs or more is decided in a thread and shown at once; its figures count from the"
    " beginning of the request to its end. Its entry is stored in parts before it is appended, so that other commands"
    " are recorded in between.",
}
"""What is worth knowing of a part, whatever its figures are."""

SHORTFALLS = {
    "crowd": "An approval is more than its entry: a connection is accepted, a request is read and answered, the event"
    " starts and is attempted in the same commit, its document is rendered anew, and the driver is called, which ends"
    " in a second entry. By samples, two fifths of the time are the writer's, of which most is deciding; the rest is"
    " the connection's and the performer's.",
    "commands": "Timed apart, a command took 26 microseconds: 14 to be decided, 8 for its share of the commit, and 4"
    " for the way there and back; bare SQLite took 6 for a row. All 64 callers wait while their commit is under way,"
    " so nothing can be decided meanwhile, and the two add up. The slower the disk, the less it matters: when a bare"
    " commit took 1.2 ms on the same machine, busy with other work, the ratio was 0.52 (0.30 to 0.72), and 0.65 and"
    " more from 4 ms on.",
    "simulator": "A step is an exchange of the real service: a connection, a request that is read, routed, decided,"
    " recorded and rendered, and a check. By cProfile nothing stands out: of the time in functions themselves, a"
    " fifth is built-in functions, 17 % the simulated loop and network, 10 % Litestar's, 6 % the simulated guests'"
    " and operators', 6 % the checks'; the function that takes most, the loop's own, has 6 %. The application of the"
    " control API is made once for each process, and the garbage collector runs between simulations only.",
    "agent": "Nothing of the start is waited for; it is the interpreter that reads modules. The two libraries on"
    " which the client and its command line stand take most of it, and a program that only imports argparse,"
    " http.client and json of the standard library is beyond three times an empty one as well. What other commands"
    " need is imported by those alone.",
    "machines": "The driver asks QEMU whether the guest runs, whether the other side waits and is as large, and how"
    " far the migration is, and writes down each step before it does it, so that a crash cannot leave two guests."
    " That takes about as long for a large guest as for a small one. On a machine that is busy with other work plain"
    " moves differ from each other by more than the 5 % in question, and such a run cannot tell if they are kept.",
    "latency": "On a machine that is busy with other work the p99.9 without any work of ours beside the GETs is"
    " larger than the 20 ms in question, and such a run cannot tell whether they are kept.",
}
"""Why a part falls short; printed only when it does."""
