"""Functions that do what functions should not do. Each run notes its begin and its end in the file `journal`."""

import asyncio
import ctypes
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time

import weir

JOURNAL = os.open('journal', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
QUICK = {'attempts': 5, 'backoff': '1ms'}


def note(event, ctx, **more):
    """One write of less than a page: lines of several processes do not mix."""
    line = {'event': event, 'execution': ctx.execution_id, 'attempt': ctx.attempt, 'fence': ctx.fence}
    line.update(workflow=ctx.workflow, pid=os.getpid(), at=time.monotonic_ns(), **more)
    os.write(JOURNAL, (json.dumps(line) + '\n').encode())


def others_alive(ctx):
    """The processes that have begun the execution before and live: a process that has died may be a zombie."""
    found = set()
    with open('journal') as file:
        for line in map(json.loads, file):
            if line['execution'] == ctx.execution_id and line['pid'] != os.getpid() and is_alive(line['pid']):
                found.add(line['pid'])
    return sorted(found)


def is_alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0] not in 'ZX'
    except OSError:
        return False


@weir.workflow(name='pid')
def pid():
    return os.getpid()


@weir.workflow(name='pid-async')
async def pid_async():
    return os.getpid()


@weir.workflow(name='segfault', retry=QUICK)
def segfault(*, ctx):
    note('begin', ctx)
    try:
        os.close(os.open('crashed', os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return 'survived'
    return ctypes.string_at(0)


@weir.workflow(name='endless', retry=QUICK)
def endless(*, ctx):
    note('begin', ctx, beside=others_alive(ctx))
    while not os.path.exists('go'):
        pass
    return ctx.attempt


@weir.workflow(name='endless-async', retry=QUICK)
async def endless_async(*, ctx):
    note('begin', ctx, beside=others_alive(ctx))
    while not os.path.exists('go'):
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            note('told', ctx)
    return ctx.attempt


@weir.workflow(name='holds-interpreter', retry=QUICK)
def holds_interpreter(*, ctx):
    """Until the test opens the FIFO `gate`."""
    note('begin', ctx)
    ctypes.PyDLL(None).open(b'gate', os.O_RDONLY)
    note('end', ctx)
    return ctx.attempt


@weir.workflow(name='blocks-loop', retry=QUICK)
async def blocks_loop(*, ctx):
    note('begin', ctx)
    os.open('gate', os.O_RDONLY)
    note('end', ctx)
    return ctx.attempt


def _double(queue, number):
    queue.put(2 * number)


@weir.workflow(name='multiprocessing', retry=QUICK)
def uses_multiprocessing(method: str, *, ctx):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_double, args=(queue, 21))
    child.start()
    answer = queue.get(timeout=60)
    child.join(60)
    return {'answer': answer, 'exit': child.exitcode}


@weir.workflow(name='terminates', retry=QUICK)
def terminates():
    child = subprocess.Popen(['sleep', '600'])
    child.terminate()
    try:
        return child.wait(60)
    finally:
        child.kill()


@weir.workflow(name='forks', retry=QUICK)
def forks(how: str, *, ctx):
    note('begin', ctx)
    child = os.fork()
    if child == 0:
        if how == 'exit':
            sys.exit(3)
        if how == 'raise':
            raise ValueError('in the child')
        if how == 'thread':
            threading.Thread(target=lambda: None).start()
        return 'by the child'
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@weir.workflow(name='forks-async', retry=QUICK)
async def forks_async(*, ctx):
    note('begin', ctx)
    child = os.fork()
    if child == 0:
        return 'by the child'
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@weir.workflow(name='waits', retry=QUICK)
def waits(*, ctx):
    note('begin', ctx)
    is_told = False
    while not os.path.exists('go'):
        if ctx.cancelled and not is_told:
            is_told = True
            note('told', ctx)
        time.sleep(0.005)
    note('end', ctx, cancelled=ctx.cancelled)
    return os.getpid()


@weir.workflow(name='waits-async', retry=QUICK)
async def waits_async(*, ctx):
    note('begin', ctx)
    try:
        while not os.path.exists('go'):
            await asyncio.sleep(0.005)
    finally:
        note('end', ctx, cancelled=ctx.cancelled)
    return os.getpid()


@weir.workflow(name='exits-loop', retry=QUICK)
async def exits_loop():
    asyncio.get_running_loop().call_soon(sys.exit, 5)
    await asyncio.sleep(0.05)
    return 'went on'


@weir.workflow(name='exits-task', retry=QUICK)
async def exits_task():
    async def end():
        raise SystemExit(4)

    task = asyncio.ensure_future(end())
    await asyncio.sleep(0.05)
    return str(task.done())


@weir.workflow(name='out-of-memory', retry={'attempts': 1})
def out_of_memory(*, ctx):
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open('/proc/self/statm') as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), hard))
    try:
        hoard = []
        while True:
            hoard.append(bytearray(1 << 20))
    finally:
        hoard = None
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError('it has no words')


def _deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def _circle():
    value = []
    value.append(value)
    return value


RESULTS = {
    'nan': lambda: float('nan'),
    'bytes': lambda: b'x',
    'circle': _circle,
    'deep': _deep,
    'nested': lambda: json.loads('[' * 500 + ']' * 500),
    'large': lambda: 'x' * (1 << 20),
    'surrogate': lambda: '\ud800',
    'keys': lambda: {(1, 2): 3},
    'nul': lambda: 'a\0b',
}
PROBLEMS = {
    'nul': lambda: ValueError('a\0b'),
    'surrogate': lambda: ValueError('a\ud800b'),
    'unspeakable': Unspeakable,
    'fail-nul': lambda: weir.Fail('co\0de', 'a\0b'),
    'fail-object': lambda: weir.Fail(5, {'no': 'text'}),
    'retry-surrogate': lambda: weir.Retry('co\ud800de', 'a\ud800b'),
    'keyboard': KeyboardInterrupt,
    'exit': lambda: SystemExit(3),
    'generator': GeneratorExit,
    'long': lambda: ValueError('\u20ac' * 100_000),
}


@weir.workflow(name='gives', retry={'attempts': 1})
def gives(what: str):
    return RESULTS[what]()


@weir.workflow(name='gives-async', retry={'attempts': 1})
async def gives_async(what: str):
    return RESULTS[what]()


@weir.workflow(name='raises', retry={'attempts': 1})
def raises(what: str):
    raise PROBLEMS[what]()


@weir.workflow(name='raises-async', retry={'attempts': 1})
async def raises_async(what: str):
    raise PROBLEMS[what]()
