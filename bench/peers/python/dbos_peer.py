"""DBOS with asynchronous workflows, as its documentation's pages on workflows, queues and communication describe: many
waits in one process are coroutines. Its other settings are the defaults.

usage: dbos_peer.py VERB URL COUNT      (verbs: ../README.md)
"""

import asyncio
import os
import sys
import time
import traceback
from importlib.metadata import version

import psycopg
from common import ROUNDS_MIN, WARM_UP_ROUNDS, pause_after, read_arguments, report, seconds
from dbos import DBOS, DBOSClient

QUEUE = 'bench'
SLEEPING = "SELECT count(*) FROM dbos.operation_outputs WHERE function_name = 'DBOS.sleep'"
SUCCEEDED = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"
ABOUT = {'name': 'DBOS', 'version': version('dbos'), 'settings': 'asynchronous workflows, LISTEN/NOTIFY'}

verb, url, count = read_arguments()
store = url.replace('postgres://', 'postgresql://', 1)
DBOS(config={'name': 'bench', 'system_database_url': store, 'log_level': 'ERROR', 'application_version': 'bench'})
started = {}


@DBOS.workflow()
async def noop(number):
    started[number] = seconds()


@DBOS.workflow()
async def nap(number, due):
    await DBOS.sleep_async(max(due - time.time(), 0))
    started[number] = seconds()


@DBOS.workflow()
async def ask(number):
    started[f'ask {number}'] = seconds()
    await DBOS.recv_async(timeout_seconds=3600)
    started[number] = seconds()


def due_of(number):
    return (float(os.environ['WEIR_BENCH_DUE_MS']) + number * float(os.environ['WEIR_BENCH_SPACING_MS'])) / 1000


def fill(name, arguments_of):
    DBOS.launch()
    DBOS.register_queue(QUEUE)
    DBOS.destroy()  # the tables and the queue stay; nothing takes workflows from it while it is filled
    client = DBOSClient(system_database_url=store)
    for number in range(count):
        client.enqueue({'workflow_name': name, 'queue_name': QUEUE, 'app_version': 'bench'}, *arguments_of(number))


async def await_count(connection, sql, wanted):
    while (await (await connection.execute(sql)).fetchone())[0] != wanted:
        await asyncio.sleep(0.02)


async def drain(connection):
    began = seconds()
    DBOS.launch()
    await await_count(connection, SUCCEEDED, count)
    lasted = seconds() - began
    report(**ABOUT, jobs=count, seconds=lasted, lifecycles_per_s=count / lasted)


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


async def timers(connection):
    difference = time.time() - seconds()
    due = due_of(0) - difference
    began = seconds()
    DBOS.launch()
    await await_count(connection, SLEEPING, count)
    parked = seconds()
    if parked > due:
        raise SystemExit('the last workflow slept after the first one was due; take fewer jobs')
    await await_count(connection, SUCCEEDED, count)
    ended = seconds()
    late = [(started[number] - (due_of(number) - difference)) * 1000 for number in range(count)]
    report(**ABOUT, jobs=count, parks_per_s=count / (parked - began), wakes_per_s=count / (ended - due),
           both_per_s=count / (parked - began + ended - due), late_p50_ms=percentile(late, 0.5),
           late_p99_ms=percentile(late, 0.99))


async def await_start(number):
    while number not in started:
        await asyncio.sleep(0.0002)


async def signals():
    DBOS.launch()
    starts, answers = [], []
    for i in range(WARM_UP_ROUNDS + max(count, ROUNDS_MIN)):
        await asyncio.sleep(pause_after(i) / 10)
        began = seconds()
        await DBOS.start_workflow_async(noop, 2 * i)
        await await_start(2 * i)
        starts.append((started[2 * i] - began) * 1000)
        handle = await DBOS.start_workflow_async(ask, 2 * i + 1)
        await await_start(f'ask {2 * i + 1}')
        await asyncio.sleep(pause_after(i))
        began = seconds()
        await DBOS.send_async(handle.get_workflow_id(), 'go')
        await await_start(2 * i + 1)
        answers.append((started[2 * i + 1] - began) * 1000)
    starts, answers = starts[WARM_UP_ROUNDS:], answers[WARM_UP_ROUNDS:]
    report(**ABOUT, jobs=len(answers), start_p50_ms=percentile(starts, 0.5), signal_p50_ms=percentile(answers, 0.5),
           signal_p99_ms=percentile(answers, 0.99))


async def main():
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        if verb == 'drain':
            await drain(connection)
        elif verb == 'timers':
            await timers(connection)
        elif verb == 'signals':
            await signals()
        else:
            raise SystemExit(f'there is no verb {verb}')


def run():
    if verb == 'fill':
        fill('noop', lambda number: (number,))
    elif verb == 'fill-timers':
        fill('nap', lambda number: (number, due_of(number)))
    else:
        asyncio.run(main())


code = 0
try:
    run()
except BaseException:
    traceback.print_exc()
    code = 1
sys.stdout.flush()
os._exit(code)  # the threads of DBOS go on otherwise
