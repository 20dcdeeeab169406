"""One function at a time: shared by the programs of this folder that measure the time from an enqueue to the end.

The worker is another process, as in a real application. A function writes a byte to a pipe, so that the measuring process
need not ask the store before the function has run.
"""

import os
import select
import subprocess
import sys
import time
from statistics import median

from common import seconds

WARM_UP_ROUNDS = 5
FUNCTION_SECONDS_MAX = 30
LOOK_SECONDS = 0.0002


def report_function(pipe):
    """For the function of a worker that was started with the number of the pipe."""
    os.write(pipe, b'.')


def _await_function(pipe, worker):
    if not select.select([pipe], [], [], FUNCTION_SECONDS_MAX)[0]:
        state = 'is alive' if worker.poll() is None else f'ended with {worker.returncode}'
        raise SystemExit(f'a function did not run within {FUNCTION_SECONDS_MAX} s; its worker {state}')
    os.read(pipe, 1)


def measure(words, rounds, enqueue, is_ended):
    """`words`: the arguments of this program that make it the worker, to which the number of the pipe is added.
    `enqueue()` returns what `is_ended()` takes. Returns the medians in milliseconds: to the end of the function, and until
    the end is on record."""
    readable, writable = os.pipe()
    worker = subprocess.Popen([sys.executable, *words, str(writable)], pass_fds=[writable], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL)
    functions, ends = [], []
    try:
        for number in range(WARM_UP_ROUNDS + rounds):
            began = seconds()
            enqueued = enqueue()
            _await_function(readable, worker)
            functions.append((seconds() - began) * 1000)
            while not is_ended(enqueued):
                time.sleep(LOOK_SECONDS)
            ends.append((seconds() - began) * 1000)
            time.sleep((20 + 7 * (number % 10)) / 1000)  # a poll does not always meet the same moment of a round
    finally:
        worker.kill()
        worker.wait()
    return {'rounds': rounds, 'function_p50_ms': median(functions[WARM_UP_ROUNDS:]),
            'end_p50_ms': median(ends[WARM_UP_ROUNDS:])}
