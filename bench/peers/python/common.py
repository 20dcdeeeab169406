"""Shared by the programs of this folder: arguments, the rounds of ten jobs, and the line that they print."""

import json
import sys
import time

LIGHT_COUNT = 10
WARM_UP_ROUNDS = 3
ROUNDS_MIN = 3
MEASURE_SECONDS = 60  # after which no round begins, once there are ROUNDS_MIN


def read_arguments():
    if len(sys.argv) != 4 or not sys.argv[3].isdigit():
        sys.exit('the arguments are VERB URL COUNT')
    return sys.argv[1], sys.argv[2], int(sys.argv[3])


def report(**line):
    import platform  # not at the top: it would count as memory of a worker

    print(json.dumps({**line, 'runtime': f'{platform.python_implementation()} {platform.python_version()}'}))


def pause_after(round_number):
    """Seconds. The ends are recorded meanwhile, and a poll does not always meet the same moment of a round."""
    return (200 + 7 * (round_number % 10)) / 1000


def summary(delays):
    delays = sorted(delays)
    return {'rounds': len(delays), 'start_of_ten_ms': delays[len(delays) // 2] * 1000,
            'start_of_ten_worst_ms': delays[-1] * 1000}


def in_sets(count, most):
    """The sizes of the sets in which `count` jobs are inserted."""
    for first in range(0, count, most):
        yield min(most, count - first)


def seconds():
    return time.perf_counter()
