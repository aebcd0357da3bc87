"""What a child prints, on its way into the case's log: a golden that prints without end must not fill the disk."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

MAX_LOG_BYTES = 16 << 20
PIPE_BYTES = 1 << 20  # the most that a pipe may hold: one read of so many bytes empties it
LEFT_OUT = f"\n[goldenprof] What follows is left out: a log keeps the first {MAX_LOG_BYTES >> 20} MiB.\n".encode()


@dataclass
class Output:
    """The reading end of the pipe that a child prints into, and the log that it is copied to."""

    pipe: int
    log: int
    room: int = MAX_LOG_BYTES  # bytes that still fit

    @classmethod
    def open(cls, log: Path, *, fresh: bool) -> tuple[Output, int]:
        """An output into `log`, emptied first if `fresh`, and the writing end for the child.

        Raises OSError when the log cannot be opened, BlockingIOError when another run is writing it: the log's lock
        keeps two runs from the same step of the same case, should Snakemake's own locks be off.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            _lock(descriptor, log)
            if fresh:
                os.ftruncate(descriptor, 0)
            reader, writer = os.pipe()
        except OSError:
            os.close(descriptor)
            raise
        return cls(reader, descriptor), writer

    def copy(self) -> bool:
        """Move what waits in the pipe; False when every writer has closed its end."""
        data = os.read(self.pipe, PIPE_BYTES)
        if self.room:
            kept = data[: self.room]
            self.room -= len(kept)
            self._write(kept if self.room else kept + LEFT_OUT)
        return bool(data)

    def say(self, text: str) -> None:
        """Add a line of the parent's own."""
        self._write(f"[goldenprof] {text}\n".encode())

    def close(self) -> None:
        """Close both. The lock goes first: a child that was just forked for another job still has the log open."""
        try:
            fcntl.flock(self.log, fcntl.LOCK_UN)
        except OSError:
            pass  # a file system without locks
        self.drop()

    def drop(self) -> None:
        """Close both in a forked child, which has no say in the lock."""
        os.close(self.pipe)
        os.close(self.log)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self.log, data) :]
        except OSError:
            pass  # the disk is full: the case itself may still come to its end


def _lock(descriptor: int, log: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(f"another run is at work on it (it writes {log}). Wait for it and run again") from None
    except OSError:
        pass  # a file system without locks
