"""huey on SQLite, with fsync.

usage: huey_peer.py fill | drain PATH COUNT      (verbs: ../README.md)
"""

import logging
import threading
from importlib.metadata import version

from common import read_arguments, report, seconds
from huey import SqliteHuey

verb, path, count = read_arguments()
# Without results: this is the cheaper of the two ways, and a no-op has none.
huey = SqliteHuey(filename=path, fsync=True, results=False)
logging.disable(logging.WARNING)
done = 0
finished = threading.Event()


@huey.task()
def noop():
    global done
    done += 1  # there is one worker
    if done == count:
        finished.set()


def fill():
    for _ in range(count):
        noop()


def drain():
    consumer = huey.create_consumer(workers=1, worker_type='thread', periodic=False)
    began = seconds()
    consumer.start()
    finished.wait()
    lasted = seconds() - began
    consumer.stop(graceful=True)
    if len(huey) > 0:
        raise SystemExit(f'{len(huey)} tasks are left')
    report(name='huey, SQLite', version=version('huey'), jobs=done, seconds=lasted, lifecycles_per_s=done / lasted,
           settings='fsync, journal_mode wal, results off, 1 worker thread')


if verb not in ('fill', 'drain'):
    raise SystemExit(f'there is no verb {verb}')
fill() if verb == 'fill' else drain()
