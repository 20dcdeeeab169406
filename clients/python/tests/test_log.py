"""What functions print and log, as `weir logs` shows it."""

import asyncio
import contextlib
import io
import logging
import os
import re
import subprocess
import sys
import threading

import pytest
from scene import WEIR

import weir
from weir import _log
from weir.testing import run_inline

log = logging.getLogger('shop.orders')


@weir.workflow(name='prints', secrets=['stripe-key'])
def prints(*, ctx):
    print('to stdout')
    print('to', 'stderr', file=sys.stderr)
    sys.stdout.write('begun')
    log.warning('in %s', ctx.workspace)
    sys.stdout.write(', ended\nno line end')
    sys.stderr.writelines(['é\n', 'ü\n'])
    ctx.log('a line\nand its second')
    ctx.log(42)
    print(f'key {ctx.secrets["stripe-key"]}', file=sys.stderr)
    log.debug('not enabled')


#: In the order of their lines in the log, each with the stream that `weir logs` names.
STREAMS = ['stdout', 'stderr', 'stderr', 'stdout', 'stderr', 'stderr', 'log', 'log', 'log', 'stderr', 'stdout']
PRINTED = ['to stdout', 'to stderr', 'WARNING shop.orders: in acme', 'begun, ended', 'é', 'ü', 'a line']
PRINTED += ['and its second', '42', 'key ***', 'no line end']


@weir.workflow(name='shows-records')
def shows_records():
    """Its handler writes to the stream of the worker, and its logger passes nothing on."""
    own = logging.getLogger('shop.own')
    handler = logging.StreamHandler()
    own.addHandler(handler)
    own.propagate = False
    try:
        own.warning('once')
        print('then')
    finally:
        own.removeHandler(handler)


@weir.workflow(name='prints-async')
async def prints_async(*, ctx):
    print('before')
    await asyncio.sleep(0)
    await asyncio.gather(asyncio.to_thread(print, 'in a thread of asyncio'), _prints('in a task'))
    log.warning('after')


async def _prints(text):
    print(text)


@weir.workflow(name='stumbles', retry={'attempts': 3, 'backoff': '1ms'})
def stumbles(*, ctx):
    print(f'run {ctx.attempt}')
    if ctx.attempt == 1:
        raise weir.Retry('later', after=0.001)
    raise LookupError('no such order')


met = threading.Barrier(2, timeout=60)


@weir.workflow(name='side-by-side')
def side_by_side(name: str):
    for number in range(20):
        sys.stdout.write(f'{name} ')
        met.wait()
        sys.stdout.write(f'{number}\n')
        log.warning('%s', name)
        met.wait()


tasks = []


@weir.workflow(name='side-by-side-async')
async def side_by_side_async(name: str):
    tasks.append(name)
    while len(tasks) < 2:
        await asyncio.sleep(0.001)
    for number in range(20):
        sys.stdout.write(f'{name} ')
        await asyncio.sleep(0)
        sys.stdout.write(f'{number}\n')
        log.warning('%s', name)


@weir.workflow(name='leaves')
def leaves(*, ctx):
    """Its thread and its child are not in the log."""
    thread = threading.Thread(target=print, args=('in a thread',))
    thread.start()
    thread.join()
    child = os.fork()
    if child == 0:
        print('in the child')
        log.warning('in the child')
        return
    os.waitpid(child, 0)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        print('elsewhere')
    print('seen', text.getvalue())
    kept.append(ctx)


kept = []


@pytest.fixture(params=['sqlite', 'postgres'])
def store(request, tmp_path):
    url = f'sqlite:{tmp_path}/weir.db' if request.param == 'sqlite' else request.getfixturevalue('postgres_url')
    store = weir.Store(url)
    store.migrate()
    store.set_workspace('acme', plan='enterprise')
    yield store
    store.close()


def run(store, *calls):
    """Runs the calls to their end in a worker, whose stop writes the last lines; returns their ids."""
    with weir.Worker([workflow for workflow, _ in calls], store=store):
        ids = [workflow.enqueue('acme', store=store, **params) for workflow, params in calls]
        for id in ids:
            store.wait(id, 60)
    return ids


def lines(store, id, *options):
    command = [WEIR, 'logs', id, '--raw', '--store', store.url, *options]
    return subprocess.run(command, check=True, capture_output=True, encoding='utf-8').stdout.splitlines()


def streams(store, id):
    """Each line with its stream."""
    command = [WEIR, 'logs', id, '--store', store.url]
    shown = subprocess.run(command, check=True, capture_output=True, encoding='utf-8').stdout
    return re.findall(r'^\S+ +(stdout|stderr|log) +(.*)$', shown, re.MULTILINE)


def test_a_function_s_lines_are_in_the_log_of_its_attempt(store, capsys, caplog, monkeypatch):
    monkeypatch.setenv('WEIR_SECRET_STRIPE_KEY', 'hunter22')
    before = sys.stdout, sys.stderr
    (id,) = run(store, (prints, {}))
    assert lines(store, id) == PRINTED
    assert streams(store, id) == list(zip(STREAMS, PRINTED))
    shown = capsys.readouterr()
    assert shown.out == 'to stdout\nbegun, ended\nno line end'
    assert shown.err == 'to stderr\né\nü\nkey hunter22\n'
    assert 'in acme' in caplog.messages
    assert (sys.stdout, sys.stderr) == before
    assert logging.Logger.callHandlers is not _log._log_record


def test_a_record_that_a_handler_prints_is_in_the_log_once(store, capsys):
    (id,) = run(store, (shows_records, {}))
    assert lines(store, id) == ['WARNING shop.own: once', 'then']
    assert capsys.readouterr().err == 'once\n'


def test_a_coroutine_s_lines_are_in_its_log_with_those_of_its_tasks(store):
    (id,) = run(store, (prints_async, {}))
    found = lines(store, id)
    assert found[0] == 'before'
    assert sorted(found[1:3]) == ['in a task', 'in a thread of asyncio']
    assert found[3:] == ['WARNING shop.orders: after']


def test_each_attempt_has_its_own_log_with_its_exception(store):
    (id,) = run(store, (stumbles, {}))
    assert lines(store, id, '--attempt', '1') == ['run 1']
    second = lines(store, id, '--attempt', '2')
    assert second[:2] == ['run 2', 'ERROR weir: stumbles of acme failed at attempt 2']
    assert second[-1] == 'LookupError: no such order'
    assert ('stderr', 'LookupError: no such order') in streams(store, id)
    assert 'run 3' in lines(store, id, '--attempt', '3')


@pytest.mark.parametrize('workflow', [side_by_side, side_by_side_async])
def test_functions_side_by_side_do_not_mix_their_lines(store, workflow):
    tasks.clear()
    ids = run(store, (workflow, {'name': 'a'}), (workflow, {'name': 'b'}))
    for id, name in zip(ids, 'ab'):
        expected = [line for number in range(20) for line in (f'{name} {number}', f'WARNING shop.orders: {name}')]
        assert lines(store, id) == expected


def test_threads_children_and_a_later_call_leave_nothing(store):
    (id,) = run(store, (leaves, {}))
    kept.pop().log('after the end')
    assert lines(store, id) == ['seen elsewhere', '']


class Call:
    """Takes the place of a call of the library."""

    def __init__(self):
        self.taken = []

    def log(self, text, stream):
        self.taken.append(text.decode())


def test_a_line_that_is_too_long_is_left_out_as_a_whole():
    call = Call()
    attempt_log = _log.AttemptLog(call)
    most = _log.LINE_CHARACTERS_MAX
    for text in ('x' * most, 'x', 'x' * most, 'x\nnext ', 'one\n', 'y' * most, '\n', 'z' * (most + 1)):
        attempt_log.write(_log.STDOUT, text)
    attempt_log.write(_log.STDERR, 'its own line\n')
    attempt_log.close()
    assert call.taken == [_log.NOTE, 'next one\n', 'y' * most + '\n', 'its own line\n', _log.NOTE]
    attempt_log.write(_log.STDOUT, 'late\n')
    attempt_log.add('late')
    assert len(call.taken) == 5


def test_each_thread_has_a_partial_line_of_its_own():
    call = Call()
    attempt_log = _log.AttemptLog(call)
    attempt_log.write(_log.STDOUT, 'one ')
    thread = threading.Thread(target=attempt_log.write, args=(_log.STDOUT, 'between'))
    thread.start()
    thread.join()
    attempt_log.write(_log.STDOUT, 'line\n')
    attempt_log.close()
    assert call.taken == ['one line\n', 'between']


def test_a_child_of_fork_writes_to_no_log():
    call = Call()
    attempt_log = _log.AttemptLog(call)
    attempt_log.write(_log.STDOUT, 'begun')
    child = os.fork()
    if child == 0:
        attempt_log.write(_log.STDOUT, 'a line\n')
        attempt_log.add('another')
        attempt_log.close()
        os._exit(len(call.taken))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    attempt_log.close()
    assert call.taken == ['begun']


def test_a_failing_log_does_not_fail_the_function(monkeypatch):
    call = Call()
    monkeypatch.setattr(call, 'log', lambda text, stream: 1 / 0)
    attempt_log = _log.AttemptLog(call)
    attempt_log.write(_log.STDOUT, 'a line\n')
    attempt_log.add('another')
    attempt_log.close()


def test_a_record_whose_arguments_do_not_fit_is_in_the_log_as_it_is():
    record = logging.LogRecord('shop', logging.ERROR, __file__, 1, '%d is no text', ('this',), None)
    assert _log._text_of(record) == "ERROR shop: '%d is no text'"


def test_run_inline_collects_the_lines_of_ctx_log():
    @weir.workflow(name='logs-inline', register=weir.Registry())
    def logs_inline(*, ctx):
        ctx.log('one\ntwo')

    with run_inline() as runs:
        logs_inline.enqueue('acme')
    assert runs[0].log == ['one', 'two']
