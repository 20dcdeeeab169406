"""Celery on Redis with late acknowledgement, as its documentation's pages on concurrency and on optimizing describe.

usage: celery_peer.py VERB URL COUNT      (verbs: ../README.md; the URL is redis+socket://PATH)

For many short tasks the page "Optimizing" recommends a large prefetch multiplier. Results are ignored.
"""

import itertools
import os
import sys
import threading
import time

import celery
import latency
import redis
from celery.signals import worker_ready
from common import read_arguments, report, seconds

THREADS = 8
PREFETCH = 64
PATH_OF_URL = 'redis+socket://'
QUEUE, UNACKNOWLEDGED = 'celery', 'unacked'

pipe = int(sys.argv.pop(4)) if sys.argv[1:2] == ['work'] else None
verb, url, count = read_arguments()
app = celery.Celery('peer', broker=url)
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=PREFETCH, task_ignore_result=True,
                worker_redirect_stdouts=False, broker_connection_retry_on_startup=True)
server = redis.Redis(unix_socket_path=url.removeprefix(PATH_OF_URL))
ABOUT = {'name': 'Celery, Redis', 'version': celery.__version__,
         'settings': f'acks_late, {THREADS} threads, prefetch multiplier {PREFETCH}, results ignored, appendfsync '
                     f"{server.config_get('appendfsync')['appendfsync']}"}
runs = itertools.count(1)
all_run = threading.Event()


@app.task(name='noop')
def noop():
    if pipe is not None:
        latency.report_function(pipe)
    elif next(runs) == count:
        all_run.set()


def run_worker():
    app.worker_main(['--quiet', 'worker', '--pool=threads', f'--concurrency={THREADS}', '--loglevel=ERROR',
                     '--without-gossip', '--without-mingle', '--without-heartbeat'])


def has_unfinished():
    return server.llen(QUEUE) + server.hlen(UNACKNOWLEDGED) > 0


def fill():
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            noop.apply_async(producer=producer)


def drain():
    """The clock runs from the moment at which the worker is ready: its start is much slower than that of the others."""
    def watch():
        began = seconds()
        all_run.wait()
        while has_unfinished():
            time.sleep(0.001)
        lasted = seconds() - began
        report(**ABOUT, jobs=next(runs) - 1, seconds=lasted, lifecycles_per_s=count / lasted)
        sys.stdout.flush()
        os._exit(0)

    worker_ready.connect(lambda **_: threading.Thread(target=watch, daemon=True).start(), weak=False)
    run_worker()


def measure_latency():
    report(**ABOUT, **latency.measure([__file__, 'work', url, '1'], count, noop.delay, lambda _: not has_unfinished()))


VERBS = {'fill': fill, 'drain': drain, 'latency': measure_latency, 'work': run_worker}
if verb not in VERBS:
    raise SystemExit(f'there is no verb {verb}')
VERBS[verb]()
