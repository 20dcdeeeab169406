"""Procrastinate with asynchronous jobs, as its documentation's pages on concurrency and on the size of the pool describe.

usage: procrastinate_peer.py VERB URL COUNT      (verbs: ../README.md)
"""

import asyncio
import os
import sys
from importlib.metadata import version

import latency
import procrastinate
import psycopg
from common import (LIGHT_COUNT, MEASURE_SECONDS, ROUNDS_MIN, WARM_UP_ROUNDS, in_sets, pause_after, read_arguments, report,
                    seconds, summary)

CONCURRENCY = 30
SET_MOST = 1000
UNFINISHED = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
ABOUT = {'name': 'Procrastinate', 'version': version('procrastinate'),
         'settings': f'concurrency {CONCURRENCY}, pool of {CONCURRENCY + 1}, asynchronous jobs'}

pipe = int(sys.argv.pop(4)) if sys.argv[1:2] == ['work'] else None
verb, url, count = read_arguments()
# "The shorter your average job execution time, the more your pool will need to contain as many connections as your
# concurrency (plus one)."
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY + 1))
done = 0
all_done = asyncio.Event()
running = 0
started = None


@app.task(name='noop')
async def noop():
    global done
    if pipe is not None:
        latency.report_function(pipe)
    done += 1
    if done == count:
        all_done.set()


@app.task(name='hold')
async def hold():
    global running
    running += 1
    await asyncio.Event().wait()


@app.task(name='light')
async def light():
    started.put_nowait(seconds())


def start_worker():
    return asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))


async def fill(total, task):
    await app.schema_manager.apply_schema_async()
    for size in in_sets(total, SET_MOST):
        await task.batch_defer_async(*[{} for _ in range(size)])


async def drain():
    began = seconds()
    worker = start_worker()
    await all_done.wait()
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    while (await (await connection.execute(UNFINISHED)).fetchone())[0] > 0:
        await asyncio.sleep(0.001)
    lasted = seconds() - began
    await connection.close()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    report(**ABOUT, jobs=done, seconds=lasted, lifecycles_per_s=done / lasted)


def measure_latency():
    """A program without an event loop enqueues."""
    sync_app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=url))
    task = sync_app.task(name='noop')(lambda: None)
    with sync_app.open(), psycopg.connect(url, autocommit=True) as connection:
        def is_ended(id):
            row = connection.execute('SELECT status FROM procrastinate_jobs WHERE id = %s', [id]).fetchone()
            return row[0] == 'succeeded'
        report(**ABOUT, **latency.measure([__file__, 'work', url, '1'], count, task.defer, is_ended))


async def defer_ten():
    """Task.batch_defer() knows one lock for all its jobs; the job manager below it takes jobs with locks of their own."""
    await app.job_manager.batch_defer_jobs_async(
        jobs=[light.configure(lock=f'tenant-{i}').make_new_job() for i in range(LIGHT_COUNT)])


async def start_ten(rounds):
    """A lock lets one job run at a time: the cap of a tenant."""
    global started
    started = asyncio.Queue()
    start_worker()
    while running == 0:
        await asyncio.sleep(0.001)
    delays, end = [], seconds() + MEASURE_SECONDS
    for number in range(WARM_UP_ROUNDS + rounds):
        if len(delays) >= ROUNDS_MIN and seconds() >= end:
            break
        began = seconds()
        await defer_ten()
        moments = [await started.get() for _ in range(LIGHT_COUNT)]
        if number >= WARM_UP_ROUNDS:
            delays.append(max(moments) - began)
        await asyncio.sleep(pause_after(number))
    report(**ABOUT, **summary(delays), full_tenant_running=running)


async def main():
    async with app.open_async():
        if verb == 'fill':
            await fill(count, noop)
        elif verb == 'drain':
            await drain()
        elif verb == 'work':
            await start_worker()
        elif verb == 'fill-full-tenant':
            await fill(count + 1, hold.configure(lock='full-tenant'))
        elif verb == 'start-ten':
            await start_ten(count)
            os._exit(0)  # the full tenant's job never ends
        else:
            raise SystemExit(f'there is no verb {verb}')


measure_latency() if verb == 'latency' else asyncio.run(main())
