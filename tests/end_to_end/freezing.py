"""Stops a process without the lock of its SQLite file: one that stands still in the middle of a commit keeps everybody from
writing until it goes on or is killed. On PostgreSQL the server ends such a transaction."""

import signal
import time

from waiting import SHORT, process_state, wait_for

SQLITE_WRITE_LOCK = ['120', '120']  # the byte of the -shm file that the writer of a WAL database locks


def holds_write_lock(pid):
    """Whether a process is inside a write transaction of a SQLite file."""
    with open('/proc/locks') as file:
        rows = [line.split() for line in file]
    return any(row[1:5] == ['POSIX', 'ADVISORY', 'WRITE', str(pid)] and row[6:] == SQLITE_WRITE_LOCK for row in rows)


def try_freeze(process):
    """Whether it stands still; it goes on when the moment was a wrong one."""
    process.send_signal(signal.SIGSTOP)
    wait_for('the stop of the process', lambda: process_state(process.pid) == 'T', pause=SHORT)
    if not holds_write_lock(process.pid):
        return True
    process.send_signal(signal.SIGCONT)
    return False


def freeze(process):
    wait_for('a stop outside of a commit', lambda: try_freeze(process), pause=SHORT)
