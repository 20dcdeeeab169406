"""How all tests wait for something that they cannot be told of."""

import time

SECONDS_MOST = 90

# Pauses, in seconds.
PAUSE_FIRST = 0.01
PAUSE_GROWTH = 1.5
SHORT = 0.02  # where a look costs nothing: a file, a process of our own
LONG = 0.25   # where each look starts a program, which the tests beside this one wait for


def wait_for(what, condition, seconds=SECONDS_MOST, pause=LONG):
    """The condition's first true value. The pauses between the looks grow to `pause` seconds. `what`: for who reads that it
    did not happen; a function where that takes a look itself."""
    deadline, next_pause = time.monotonic() + seconds, PAUSE_FIRST
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f'{what() if callable(what) else what} did not happen within {seconds} s')
        time.sleep(min(next_pause, pause))
        next_pause *= PAUSE_GROWTH


def process_state(pid):
    """The kernel's letter for a process: T = it stands still, as after `stop` at a failpoint, Z = it has ended and
    nobody has asked for it yet; None = there is none."""
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0]
    except OSError:
        return None
