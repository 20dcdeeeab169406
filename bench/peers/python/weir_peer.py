"""Functions in Python on weir.

usage: weir_peer.py threads|async|native VERB URL COUNT   (verbs: ../README.md; `weir_bench handler fill` fills the store)

`threads` are 8 threads with plain functions, `async` is one event loop. `native` is for `processor`: a callable that is
written in C takes the place of the function, so that no code of Python is interpreted.
"""

import time

BEGAN = time.perf_counter()  # of `start`: before the package is imported

import itertools  # noqa: E402
import operator  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402

import weir  # noqa: E402

LOADED = time.perf_counter()

from common import read_arguments, report, seconds  # noqa: E402

STARTED = seconds()
WORKSPACES = 100
THREADS = 8
LEFT = 'SELECT 1 FROM weir.workflow_execution_queue WHERE id = %s'
PAUSE_SECONDS = 0.05
LIVE = ['PENDING', 'CLAIMED', 'DISPATCHED']

mode = sys.argv.pop(1)
pipe = int(sys.argv.pop(4)) if sys.argv[1:2] == ['work'] else None
verb, url, count = read_arguments()
if verb in ('latency', 'work'):  # they would count as memory of a worker
    import latency
    import psycopg
store = weir.configure(url)
ABOUT = {'name': f'weir, {mode}', 'version': weir.__version__,
         'settings': f'{THREADS} threads' if mode == 'threads' else 'one event loop'}
runs = itertools.count(1)
all_run = threading.Event()


def run_one():
    if pipe is not None:
        latency.report_function(pipe)
    elif next(runs) == count:
        all_run.set()


if mode in ('threads', 'native'):
    @weir.workflow(name='noop')
    def noop():
        run_one()
elif mode == 'async':
    @weir.workflow(name='noop')
    async def noop():
        run_one()
else:
    raise SystemExit(f'there is no mode {mode}')


def used_us():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e6


def drain():
    before, began = used_us(), seconds()
    worker = weir.Worker(threads=THREADS)
    worker.start()
    all_run.wait()
    while next(store.executions(states=LIVE), None) is not None:
        time.sleep(0.001)
    lasted = seconds() - began
    used = used_us() - before
    worker.stop()
    report(**ABOUT, jobs=next(runs) - 1, seconds=lasted, lifecycles_per_s=count / lasted, processor_us=used / count)


def measure_latency():
    workspaces = itertools.cycle(range(WORKSPACES))

    def is_ended_in_file(id):
        try:
            store.native().wait(id, 0)
        except weir.TimedOut:
            return False
        return True

    def measure(is_ended):
        words = [__file__, mode, 'work', url, '1']
        report(**ABOUT, **latency.measure(words, count, lambda: noop.enqueue(f'workspace-{next(workspaces)}'), is_ended))

    if not store.is_postgres():
        measure(is_ended_in_file)
        return
    with psycopg.connect(url, autocommit=True) as connection:  # one statement, as for the other queues
        measure(lambda id: connection.execute(LEFT, [id]).fetchone() is None)


def measure_processor():
    """Of the binding alone: the function does nothing but answer, and one thread runs it, as in the program in C. Looks at
    the store find the end, because a callable in C does not count. They add less than half a microsecond to a call."""
    def answer(call):
        call.done(None)

    before = used_us()
    handler = operator.methodcaller('done', None) if mode == 'native' else answer
    node = weir._weir.Node(store.native(), {'noop': handler}, threads=1)
    node.start()
    while store._page('executions', weir.Filter(states=LIVE), limit=1)['items']:
        time.sleep(PAUSE_SECONDS)
    node.stop(-1)
    used = used_us() - before
    report(processor_us=used / count, jobs=store.count(states=['COMPLETED']))
    node.close()


def measure_start():
    """From before the import to the first call of a function that waits in the store. The modules of this bench, which are
    loaded after it, do not count."""
    helpers = STARTED - LOADED
    worker = weir.Worker(threads=THREADS)
    worker.start()
    all_run.wait()
    report(**ABOUT, start_ms=(seconds() - BEGAN - helpers) * 1000)
    worker.stop()


def resident_kib():
    with open('/proc/self/status') as file:
        return next(int(line.split()[1]) for line in file if line.startswith('VmRSS'))


def measure_memory():
    with weir.Worker(threads=THREADS):
        all_run.wait()
        time.sleep(0.5)  # the ends are recorded meanwhile
        report(**ABOUT, resident_kib=resident_kib())


def work():
    weir.Worker(threads=THREADS).run()


VERBS = {'drain': drain, 'latency': measure_latency, 'processor': measure_processor, 'start': measure_start,
         'memory': measure_memory, 'work': work}
if verb not in VERBS:
    raise SystemExit(f'there is no verb {verb}')
VERBS[verb]()
