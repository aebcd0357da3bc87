"""The warm parent: imports torch and starts its profiler once, then forks one child for every request.

It is single-threaded and never touches a device: a process that has used several threads, or an NPU, cannot be forked
safely. It watches the process it works for, its clients and its children, and leaves nothing behind:
a client that goes away takes its child with it, and when the session ends everything does. What a child prints comes
through a pipe (output.py); what goes wrong with one request is that request's answer, and never the parent's end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

ENVIRONMENT = dict(os.environ)
# One thread before anything is imported: GNU OpenMP hangs in a forked child whose parent used several.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

from scripts import failures, key, peaks, plan  # noqa: E402
from scripts.devices import identity  # noqa: E402
from scripts.errors import CaseFailure  # noqa: E402
from scripts.plan import PlannedCase  # noqa: E402
from scripts.status import Status  # noqa: E402
from scripts.warm import protocol, roster  # noqa: E402
from scripts.warm.output import PIPE_BYTES, Output  # noqa: E402
from scripts.warm.protocol import Answer, Message, Request  # noqa: E402
from scripts.warm.roster import Following, Roster, Trail  # noqa: E402

MEASURING = ("profile", "peaks")  # the steps that are handed a device
IDLE_S = float(ENVIRONMENT.get("GOLDENPROF_IDLE_S", "120"))
STACK_S = 0.5  # that a late child has to write its stack
PR_SET_CHILD_SUBREAPER = 36


@dataclass(eq=False)
class Job:
    """One child at work for one client."""

    request: Request
    step: str  # the request's, or what is to follow it
    planned: PlannedCase
    client: socket.socket
    pid: int
    pidfd: int
    pipe: int
    output: Output
    trail: Trail
    device: str = ""  # that it was handed out of several
    phase: str = "starting"
    deadline: float = 0.0  # monotonic; 0 while no time counts
    received: bytes = b""
    result: Message | None = None
    timed_out: bool = False


@dataclass
class Server:
    """The event loop; every file descriptor it waits for carries its own handler."""

    listener: socket.socket
    session_fd: int
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    jobs: set[Job] = field(default_factory=set)
    roster: Roster = field(default_factory=Roster)
    last_used: float = field(default_factory=time.monotonic)
    ended: bool = False

    def serve(self) -> None:
        """Answer requests until the session ends or nobody has asked for a while."""
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.selector.register(self.session_fd, selectors.EVENT_READ, self._end)
        while not self.ended and (self.jobs or time.monotonic() - self.last_used < IDLE_S):
            for event, _ in self.selector.select(self._patience()):
                event.data()
            self._stop_late_jobs()
        for job in list(self.jobs):
            self._kill(job)

    def _patience(self) -> float:
        now = time.monotonic()
        waits = [job.deadline - now for job in self.jobs if job.deadline]
        return max(min([*waits, 1.0]), 0.0)

    def _end(self) -> None:
        self.ended = True

    def _accept(self) -> None:
        try:
            client, _ = self.listener.accept()
        except OSError:  # no descriptor is free: one is when a job ends
            time.sleep(0.05)
            return
        self.selector.register(client, selectors.EVENT_READ, lambda: self._read_request(client))

    def _read_request(self, client: socket.socket) -> None:
        self.selector.unregister(client)
        line = client.makefile("rb").readline()
        if not line:
            client.close()
            return
        self.last_used = time.monotonic()
        try:
            client.sendall(protocol.HEARD)
            request = Request(**json.loads(line))
            planned = plan.read_saved(Path(request.plan))[request.case]
        except Exception as error:  # a plan that was removed, above all
            traceback.print_exc()
            text = f"{_named(line)} could not be started: {error}."
            _answer(client, Answer(Status.PROFILER_FAILED.exit_code, text))
            return
        self._start(request, request.step, planned, client, Trail())

    def _start(
        self, request: Request, step: str, planned: PlannedCase, client: socket.socket, trail: Trail, device: str = ""
    ) -> None:
        """Have a child do the step on `device`, or on one of the planned ones that is left."""
        handed = replace(planned, devices=(device,)) if device else planned
        try:
            if step in MEASURING and planned.devices and not (handed := self.roster.left(planned)).devices:
                failure = self.roster.none_left(planned)
                _answer(client, trail.told(_failed_step(request, planned, failure)))
                return
            _warm_up(planned)
            self._fork(request, step, planned, client, trail, handed)
        except Exception as error:  # a full disk, no free descriptor, no memory to fork
            traceback.print_exc()
            _answer(client, _not_started(request, step, planned, error))

    def _fork(
        self,
        request: Request,
        step: str,
        planned: PlannedCase,
        client: socket.socket,
        trail: Trail,
        handed: PlannedCase,
    ) -> None:
        with contextlib.ExitStack() as undo:  # whatever is open when something fails is closed
            output, writer_of_output = Output.open(Path(request.log), fresh=step == request.step and not trail.notes)
            undo.callback(output.close)
            undo.callback(os.close, writer_of_output)
            reader, writer = os.pipe()
            undo.callback(os.close, reader)
            undo.callback(os.close, writer)
            own, pid = os.getpid(), os.fork()
            if pid == 0:
                unused = (client.detach(), reader, output.pipe, output.log)
                self._become_child(own, step, handed, writer_of_output, writer, unused)
            undo.callback(_kill_group, pid)
            pidfd = os.pidfd_open(pid)
            undo.pop_all()
        os.close(writer)
        os.close(writer_of_output)
        job = Job(request, step, planned, client, pid, pidfd, reader, output, trail)
        if step == "probe":
            job.device = handed.devices[0]
        self.jobs.add(job)
        self._watch(job, reader, self._read_pipe)
        self._watch(job, output.pipe, self._copy_output)
        self._watch(job, job.pidfd, self._child_ended)
        self._watch(job, client, self._client_left)

    def _watch(self, job: Job, source: int | socket.socket, handler: Callable[[Job], None]) -> None:
        """Call `handler` when there is something to read from `source`, or it has ended.

        Not once the job has ended: one of several events that came at once may have ended it, and its descriptors are
        closed then, or another job's.
        """

        def heard() -> None:
            if job in self.jobs:
                handler(job)

        self.selector.register(source, selectors.EVENT_READ, heard)

    def _become_child(
        self, parent: int, step: str, planned: PlannedCase, output: int, pipe: int, unused: tuple[int, ...]
    ) -> NoReturn:
        """In the forked child: nothing of the parent's may run in it, whatever happens."""
        try:
            from scripts.warm import child

            child.end_with(parent)
            _adopt_orphans()
            self._close_in_child()
            for descriptor in unused:
                os.close(descriptor)
            child.run(step, planned, output, pipe, ENVIRONMENT, set(planned.devices) - self.roster.used)
        except BaseException:
            traceback.print_exc()  # into the warm parent's log
        finally:
            os._exit(1)

    def _close_in_child(self) -> None:
        self.selector.close()
        self.listener.close()
        os.close(self.session_fd)
        for job in self.jobs:
            job.client.close()
            os.close(job.pidfd)
            if job.pipe >= 0:
                os.close(job.pipe)
            job.output.drop()

    def _copy_output(self, job: Job) -> None:
        if not job.output.copy():
            self.selector.unregister(job.output.pipe)

    def _read_pipe(self, job: Job) -> None:
        data = os.read(job.pipe, PIPE_BYTES)
        if not data:
            self._close_pipe(job)
            return
        *lines, job.received = (job.received[-PIPE_BYTES:] + data).split(b"\n")
        for line in lines:
            try:
                self._heard(job, Message(**json.loads(line)))
            except (ValueError, TypeError):
                pass  # the golden wrote into a descriptor that it does not own

    def _close_pipe(self, job: Job) -> None:
        if job.pipe >= 0:
            self.selector.unregister(job.pipe)
            os.close(job.pipe)
            job.pipe = -1

    def _heard(self, job: Job, message: Message) -> None:
        if message.kind == "result":
            job.result = message
            return
        if job.timed_out:
            return
        job.phase = message.text
        job.device = roster.device_of(message.text) or job.device
        if message.text == "running" and job.device:
            self.roster.used.add(job.device)
        limit = roster.limit_s(message.text, job.step, job.planned.case.settings.timeout_s)
        job.deadline = time.monotonic() + limit if limit else 0.0

    def _stop_late_jobs(self) -> None:
        """Have who is late say where it is, and kill it a moment later."""
        now = time.monotonic()
        for job in list(self.jobs):
            if not job.deadline or now <= job.deadline:
                continue
            if job.timed_out:
                job.deadline = 0.0
                _kill_group(job.pid)
            else:
                job.timed_out, job.deadline = True, now + STACK_S
                job.output.say(f"{job.step} has had its time (phase: {job.phase}). Its Python stack:")
                os.kill(job.pid, protocol.SAY_WHERE)

    def _client_left(self, job: Job) -> None:
        """The job was interrupted: its child must not go on measuring for nobody."""
        self._kill(job)

    def _kill(self, job: Job) -> None:
        _kill_group(job.pid)
        os.waitpid(job.pid, 0)
        self._forget(job)
        job.client.close()

    def _child_ended(self, job: Job) -> None:
        _kill_group(job.pid)  # what the golden started and left behind
        self._read_the_rest(job)
        _, wait_status = os.waitpid(job.pid, 0)
        if job.timed_out:
            job.result = None
        exit_code = os.waitstatus_to_exitcode(wait_status)
        if (following := self._what_follows(job, exit_code)).step:
            self._forget(job)
            self._start(job.request, following.step, job.planned, job.client, following.trail, following.device)
            return
        job.trail = following.trail
        answer = job.trail.told(self._recorded(job, exit_code))
        self._forget(job)
        _answer(job.client, answer)

    def _what_follows(self, job: Job, exit_code: int) -> Following:
        """What another child is to do for the same job; no step when the job has ended."""
        result = job.result
        if result is not None and result.status == Status.OK:
            return Following(result.then, job.trail)
        if not job.device:
            return Following("", job.trail)
        failure = _failure(job, exit_code)
        following = self.roster.after_failure(job.request.step, job.device, job.phase, failure, job.trail)
        if following.trail.notes != job.trail.notes:
            job.output.say(following.trail.notes[-1])
        return following

    def _read_the_rest(self, job: Job) -> None:
        """What the child wrote last. One read takes all that a pipe holds; who escaped from its group may write on."""
        for descriptor, read in ((job.pipe, self._read_pipe), (job.output.pipe, lambda job: job.output.copy())):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)
                try:
                    read(job)
                except BlockingIOError:
                    pass  # nothing was left to read

    def _forget(self, job: Job) -> None:
        self._close_pipe(job)
        for watched in (job.pidfd, job.client, job.output.pipe):
            if watched in self.selector.get_map():
                self.selector.unregister(watched)
        os.close(job.pidfd)
        job.output.close()
        self.jobs.discard(job)
        self.last_used = time.monotonic()
        _kill_orphans({other.pid for other in self.jobs})

    def _recorded(self, job: Job, exit_code: int) -> Answer:
        try:
            return self._conclude(job, exit_code)
        except Exception as error:  # a full disk, most of all
            traceback.print_exc()
            told = f"{job.result.status}. {job.result.text}" if job.result is not None else f"exit code {exit_code}."
            text = f"{job.planned.case.id} ended with {told} This could not be recorded: {error}"
            return Answer(Status.PROFILER_FAILED.exit_code, text)

    def _conclude(self, job: Job, exit_code: int) -> Answer:
        if job.step != "probe" and job.result is not None and job.result.status == Status.OK:
            failures.clear(job.planned)
            job.planned.link_latest()
            return Answer(0, "")
        return _failed_step(job.request, job.planned, job.trail.failure or _failure(job, exit_code))


def _failed_step(request: Request, planned: PlannedCase, failure: CaseFailure) -> Answer:
    """Remember why a step failed."""
    text = failures.write(planned, request.step, failure, Path(request.log))
    if request.step == "peaks":  # reports go without them
        peaks.write_problem(planned.target, planned.device, failure.message)
        return Answer(0, text)
    return Answer(failure.status.exit_code, text)


def _named(line: bytes) -> str:
    try:
        request = Request(**json.loads(line))
        return f"{request.step} of {request.case}"
    except (ValueError, TypeError):
        return "A job"


def _not_started(request: Request, step: str, planned: PlannedCase, error: Exception) -> Answer:
    """Remembered as the case's failure where that is possible: else the summary would say that it was not run."""
    failure = CaseFailure(
        Status.PROFILER_FAILED,
        f"{step} of {planned.case.id} could not be started: {error}.",
        "See .snakemake/goldenprof/warm.log; the machine may lack memory, descriptors or disk space. Run it again.",
    )
    text = f"{failure.message}\n{failure.advice}"
    try:
        text = failures.write(planned, request.step, failure, Path(request.log))
    except Exception:  # the same full disk
        traceback.print_exc()
    return Answer(failure.status.exit_code, text)


def _answer(client: socket.socket, answer: Answer) -> None:
    with client:
        try:
            client.sendall(protocol.encode(answer))
        except OSError:
            pass  # the client has just gone


def _failure(job: Job, exit_code: int) -> CaseFailure:
    """Why a job's child did not end well."""
    if job.result is None and roster.device_of(job.phase):
        how = f"within {roster.OPENING_LIMIT_S:g} s" if job.timed_out else f"(its process ended with code {exit_code})"
        return CaseFailure(Status.DEVICE_UNAVAILABLE, f"{job.device} could not be opened {how}.")
    if job.timed_out:
        return _timeout(job)
    if job.result is None:
        return _died(job, exit_code)
    return CaseFailure(Status(job.result.status), job.result.text, job.result.advice)


def _timeout(job: Job) -> CaseFailure:
    from scripts import diagnosis

    limit = job.planned.case.settings.timeout_s
    return CaseFailure(
        Status.TIMEOUT,
        f"{job.request.step} of {job.planned.case.id} did not end within timeout_s = {limit:g} s (phase: {job.phase}).",
        str(diagnosis.diagnose_timeout(limit) if job.phase != "analysing" else diagnosis.ANALYSIS_TIMEOUT),
    )


def _died(job: Job, exit_code: int) -> CaseFailure:
    from scripts import diagnosis

    how = (
        f"was killed by {signal.Signals(-exit_code).name}"
        if exit_code < 0
        else f"ended itself with exit code {exit_code}"
    )
    return CaseFailure(
        Status.PROFILER_FAILED if job.step == "analyse" else Status.GOLDEN_FAILED,
        f"The process of {job.planned.case.id} {how} in step {job.step} (phase: {job.phase}) before it gave a result.",
        str(diagnosis.diagnose_exit(exit_code)),
    )


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _adopt_orphans() -> None:
    """Have what is detached below this process become its child, instead of the system's."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def _kill_orphans(working: set[int]) -> None:
    """Kill processes that goldens of ended jobs detached from their group: this process's children but `working`.

    While a job is at work, what its golden detaches is its own process's (`_adopt_orphans`). The children of who is
    killed become this process's in turn, until there are none.
    """
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while children.exists() and (found := set(map(int, children.read_text().split())) - working):
        for pid in found:
            _kill_group(pid)
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


_warmed: set[str] = set()


def _warm_up(planned: PlannedCase) -> None:
    """Pay once, before the first fork, for what every child needs: torch, its profiler's start, the CPU's noise."""
    import torch

    if "torch" not in _warmed:
        from scripts.warm import child  # noqa: F401

        torch.set_num_threads(1)
        _warmed.add("torch")
    kind = key.kind_of(planned.key)
    if kind not in _warmed and not planned.problem:
        from scripts.devices import opening

        opening.preload(kind)
        _warmed.add(kind)
    if "profiler" not in _warmed:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            torch.ones(1) + 1
        _warmed.add("profiler")
    for name in (planned.case.settings.device, *planned.devices):  # each child asks again for these, and for the digest
        identity.resolve(name)
    if planned.case.golden:
        key.case_digest(planned.case, Path(planned.case.golden), plan.roots())
    if kind == "cpu" and planned.case.settings.cache == "cold":
        import math

        from scripts import measure

        measure.cpu_noise(math.ceil(planned.case.settings.noise_mib * measure.MIB / measure.FLOAT32_BYTES))


def main(session: str) -> None:
    """Listen at once, then warm up; the first request waits in the socket meanwhile."""
    path = protocol.socket_path(session)
    _adopt_orphans()
    try:
        session_fd = os.pidfd_open(protocol.session_pid(session))
    except ProcessLookupError:
        return
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1024)
    listener.setblocking(True)
    own = path.stat()
    try:
        Server(listener, session_fd).serve()
    finally:
        _leave(path, own, listener)


def _leave(path: Path, own: os.stat_result, listener: socket.socket) -> None:
    """Remove the socket, unless it is that of another parent, which a client has started since.

    The listener is refused to all, so that no client waits in it with the lock, but stays open: the number of its file,
    by which it is known, is no other's until then.
    """
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    with protocol.alone_at(path), contextlib.suppress(FileNotFoundError):
        if os.path.samestat(own, path.stat()):
            path.unlink()
    listener.close()


if __name__ == "__main__":
    main(sys.argv[1])
