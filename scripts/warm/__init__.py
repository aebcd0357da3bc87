"""Running a step in a process of its own without paying for its imports: a warm parent forks one child a case.

client.py   what a job does: asks the warm parent, starts it where there is none, waits for its answer
launch.py   how such a process is started
output.py   what a child prints, copied into the log of its case
server.py   the warm parent: single-threaded, has imported torch and started its profiler once, never a device
roster.py   which devices are still handed out, and what follows when a case failed on one
child.py    what a forked child does: the step, with its output in the case's log
protocol.py the messages between them
"""
