"""What a function or its process may do wrong: nothing is lost, nothing runs twice at once, and the worker goes on."""

import contextlib
import os
import signal
import sys
import time

import pytest
from conftest import SOURCE
from scene import Scene, wait_until

import weir

sys.path.insert(0, str(SOURCE / 'tests' / 'end_to_end'))
from freezing import freeze  # noqa: E402

#: Beyond the lease of a second; WEIR_AWAY_SECONDS=60 for a full campaign.
AWAY_SECONDS = float(os.environ.get('WEIR_AWAY_SECONDS', '3'))
#: Of an interpreter or an event loop, at least; WEIR_BLOCKED_SECONDS=30 for a full campaign.
BLOCKED_SECONDS = float(os.environ.get('WEIR_BLOCKED_SECONDS', '2'))


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path, f'sqlite:{tmp_path}/weir.db')
    yield made
    made.close()


@pytest.fixture(params=['sqlite', 'postgres'])
def on_both(request, tmp_path):
    url = f'sqlite:{tmp_path}/weir.db' if request.param == 'sqlite' else request.getfixturevalue('postgres_url')
    made = Scene(tmp_path, url)
    yield made
    made.close()


def failure(scene, id):
    with pytest.raises(weir.ExecutionFailed) as problem:
        scene.store.result(id, 60)
    return problem.value


# --- results and exceptions ---


@pytest.mark.parametrize('gives', ['gives', 'gives-async'])
def test_a_result_that_cannot_be_recorded_fails_in_words(scene, gives):
    scene.worker()
    wanted = {
        'nan': 'result_not_json',
        'bytes': 'result_not_json',
        'circle': 'result_not_json',
        'keys': 'result_not_json',
        'deep': 'result_not_json',
        'large': 'handler_bad_output',
        'surrogate': 'handler_bad_output',
    }
    ids = {what: scene.enqueue(gives, what=what) for what in wanted}
    assert {what: failure(scene, id).code for what, id in ids.items()} == wanted
    assert scene.store.result(scene.enqueue(gives, what='nul'), 60) == 'a\0b'
    assert scene.store.result(scene.enqueue('pid'), 60) > 0


@pytest.mark.parametrize('raises', ['raises', 'raises-async'])
def test_every_exception_is_an_answer(scene, raises):
    scene.worker()
    wanted = {
        'nul': 'value_error',
        'surrogate': 'value_error',
        'unspeakable': 'unspeakable',
        'fail-nul': 'co de',
        'fail-object': '5',
        'retry-surrogate': 'co?de',
        'keyboard': 'keyboard_interrupt',
        'exit': 'system_exit',
        'generator': 'generator_exit',
        'long': 'value_error',
    }
    ids = {what: scene.enqueue(raises, what=what) for what in wanted}
    assert {what: failure(scene, id).code for what, id in ids.items()} == wanted
    assert scene.store.result(scene.enqueue('pid-async'), 60) > 0


@pytest.mark.parametrize(('name', 'result'), [('exits-loop', 'went on'), ('exits-task', 'True')])
def test_an_exit_inside_the_event_loop_leaves_the_loop_running(scene, name, result):
    scene.worker()
    assert scene.store.result(scene.enqueue(name), 60) == result
    assert scene.store.result(scene.enqueue('pid-async'), 60) > 0


def test_a_function_without_memory_fails_and_the_worker_goes_on(scene):
    scene.worker()
    assert failure(scene, scene.enqueue('out-of-memory')).code == 'memory_error'
    assert scene.store.result(scene.enqueue('pid'), 60) > 0


# --- processes that end ---


def test_a_segfault_ends_one_process_and_the_supervisor_starts_another(on_both):
    worker = on_both.worker('--processes', '2')
    id = on_both.enqueue('segfault')
    assert on_both.store.result(id, 60) == 'survived'
    on_both.wait_for_log(worker, f'ended with {-signal.SIGSEGV}')
    begins = on_both.journal('begin', id)
    assert len({line['fence'] for line in begins}) == len(begins) == 2


def test_a_killed_worker_leaves_its_executions_to_another(on_both):
    worker = on_both.worker('--threads', '4')
    ids = [on_both.enqueue('waits') for _ in range(4)]
    on_both.wait_for_begins(4)
    worker.kill()
    worker.wait()
    heir = on_both.worker('--threads', '4')
    on_both.wait_for_begins(8)
    on_both.go()
    assert [on_both.store.result(id, 60) for id in ids] == [heir.pid] * 4


def test_a_worker_that_was_frozen_beyond_its_lease_is_told_and_its_result_refused(on_both):
    frozen = on_both.worker(lease='1s')
    ids = [on_both.enqueue('waits'), on_both.enqueue('waits-async')]
    on_both.wait_for_begins(2)
    wait_until(lambda: {on_both.store.show(id)['status'] for id in ids} == {'DISPATCHED'})
    freeze(frozen)
    on_both.observer()
    heir = on_both.worker()
    on_both.wait_for_begins(4)
    frozen.send_signal(signal.SIGCONT)
    for event in ('end', 'told'):  # of the coroutine, and of the function in a thread
        wait_until(lambda of=event: any(line['pid'] == frozen.pid for line in on_both.journal(of)), event)
    on_both.go()
    assert [on_both.store.result(id, 60) for id in ids] == [heir.pid] * 2
    wait_until(lambda: len(on_both.journal('end')) == 4)
    assert {line['pid']: line['cancelled'] for line in on_both.journal('end')} == {frozen.pid: True, heir.pid: False}
    heir.terminate()
    assert heir.wait(60) == 0
    assert on_both.store.result(on_both.enqueue('pid'), 60) == frozen.pid  # it has a lease again
    assert [on_both.store.result(id, 60) for id in ids] == [heir.pid] * 2


@pytest.mark.parametrize('name', ['holds-interpreter', 'blocks-loop'])
def test_a_lease_outlives_a_blocked_interpreter_or_loop(on_both, name):
    """Heartbeats come three times a lease, so seven of them are two leases."""
    os.mkfifo(on_both.folder / 'gate')
    blocked = on_both.worker(lease='1s')
    id = on_both.enqueue(name)
    on_both.wait_for_begins(1)
    until = time.monotonic() + BLOCKED_SECONDS
    ids, heartbeats = set(), set()

    def note_heartbeat():
        (node,) = on_both.store.nodes()
        ids.add(node['id'])
        heartbeats.add(node['seen_at'])
        return len(heartbeats) > 7 and time.monotonic() > until

    wait_until(note_heartbeat, 'the seventh heartbeat and the end of the time')
    os.close(os.open(on_both.folder / 'gate', os.O_WRONLY | os.O_NONBLOCK))  # fails when nobody is blocked any more
    assert on_both.store.result(id, 60) == 1
    assert [line['pid'] for line in on_both.journal()] == [blocked.pid] * 2
    assert len(ids) == 1  # a node that has lost its lease comes back under another id


# --- stops ---


def test_sigterm_awaits_twenty_running_functions(on_both):
    worker = on_both.worker('--threads', '16', '--grace', '100s')
    on_both.store.set_workspace('acme', max_concurrent=40)
    names = ['waits-async'] * 12
    for number in range(8):  # a workspace does not get all threads
        on_both.store.set_workspace(f'small-{number}')
    ids = [on_both.enqueue(name) for name in names]
    ids += [on_both.enqueue('waits', workspace=f'small-{number}') for number in range(8)]
    on_both.wait_for_begins(20)
    worker.terminate()
    on_both.wait_for_log(worker, 'takes nothing more')
    late = on_both.enqueue('pid')
    on_both.go()
    assert worker.wait(60) == 0, on_both.log(worker)
    assert {on_both.store.show(id)['status'] for id in ids} == {'COMPLETED'}
    assert on_both.store.show(late)['status'] == 'PENDING'
    assert {line['cancelled'] for line in on_both.journal('end')} == {False}
    assert len(on_both.journal('end')) == 20


SIGNAL_AT_EVERY_LINE = """
import faulthandler, os, signal, sys
import weir
import weir.worker
from weir.worker import Worker

weir.worker.CHECK_MS = 1

@weir.workflow(name='nothing')
def nothing(): pass

class Signalled(Worker):
    def start(self):
        self.lines = 0
        sys._getframe(1).f_trace = self.trace
        sys.settrace(self.trace)

    def trace(self, frame, event, argument):
        self.lines += event == 'line'
        if event == 'line' and self.lines == self.place:
            os.kill(os.getpid(), signal.SIGTERM)
        return self.trace

    def check(self):
        pass

    def stop(self, grace=None):
        sys.settrace(None)
        return True

worker = Signalled()
for worker.place in range(1, 60):
    faulthandler.dump_traceback_later(100, exit=True)
    worker.run()
"""


def test_a_signal_ends_the_worker_wherever_it_comes(scene):
    program = scene.program(SIGNAL_AT_EVERY_LINE)
    assert program.wait(300) == 0, scene.log(program)


FORKED_IN_A_WORKER = """
import faulthandler, os, signal, time
import weir
import weir.worker
from weir.worker import Worker

weir.worker.CHECK_MS = 100

@weir.workflow(name='nothing')
def nothing(): pass

class Forking(Worker):
    times = []

    def start(self):
        ready, child_runs = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(child_runs, b'.')
            while True:
                time.sleep(0.05)  # not pause(): a signal before it would be handled after it
        os.read(ready, 1)  # the end of fork() in a child of CPython forgets the signals that came before
        os.kill(child, signal.SIGTERM)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM

    def check(self):
        self.times.append(time.monotonic())
        if len(self.times) == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    def stop(self, grace=None):
        return True

faulthandler.dump_traceback_later(100, exit=True)
worker = Forking()
worker.run()
assert worker.times[3] - worker.times[0] >= 0.3, worker.times
"""


def test_a_signal_to_a_child_of_fork_ends_the_child_and_does_not_wake_the_worker(scene):
    program = scene.program(FORKED_IN_A_WORKER)
    assert program.wait(300) == 0, scene.log(program)


def test_a_function_that_never_ends_does_not_keep_its_worker(on_both):
    worker = on_both.worker('--grace', '0.2s')
    ids = [on_both.enqueue('endless'), on_both.enqueue('endless-async')]
    on_both.wait_for_begins(2)
    worker.terminate()
    on_both.wait_for_log(worker, 'takes nothing more')
    heir = on_both.worker()
    assert worker.wait(60) == 1
    assert 'did not end after its cancellation' in on_both.log(worker)
    begins = on_both.wait_for_begins(4)[2:]
    assert {line['pid'] for line in begins} == {heir.pid}
    assert [line['beside'] for line in begins] == [[], []], 'two runs overlapped'
    on_both.go()
    assert all(on_both.store.result(id, 60) for id in ids)


# --- fork ---


@pytest.mark.parametrize('method', ['fork', 'spawn', 'forkserver'])
def test_a_function_may_use_multiprocessing(scene, method):
    scene.worker()
    id = scene.enqueue('multiprocessing', method=method)
    assert scene.store.result(id, 60) == {'answer': 42, 'exit': 0}


def test_a_program_that_a_function_starts_can_be_terminated(scene):
    scene.worker()
    assert scene.store.result(scene.enqueue('terminates'), 60) == -signal.SIGTERM


@pytest.mark.parametrize(('how', 'code'), [('exit', 3), ('raise', 1), ('return', 0), ('thread', 0)])
def test_a_child_of_fork_that_leaves_its_function_ends(scene, how, code):
    scene.worker()
    id = scene.enqueue('forks', how=how)
    assert scene.store.result(id, 60) == code
    assert len(scene.journal('begin', id)) == 1


def test_a_child_of_fork_that_leaves_its_coroutine_ends(scene):
    scene.worker()
    assert scene.store.result(scene.enqueue('forks-async'), 60) == 0


PREFORK = """
import os, sys, time
import faulty, weir
store = weir.default_store()
workers = []
def wait_for(ids):
    return [store.result(id, 60) for id in ids]
ids = [faulty.pid.enqueue('acme')]  # the parent has the store open, as an application that was imported before the fork
if os.environ.get('WORKER'):
    parent = weir.Worker(store=store, lease='60s')
    parent.start()
    wait_for(ids)
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        for _ in range(5):
            ids.append(faulty.pid.enqueue('acme'))
        if not os.environ.get('WORKER'):
            with weir.Worker(store=store, lease='60s'):
                wait_for(ids)
        sys.exit(7)  # with the functions of atexit
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [7] * 4, codes
ids.append(faulty.pid.enqueue('acme'))
if os.environ.get('WORKER'):
    assert wait_for(ids) == [os.getpid()] * len(ids)
    parent.check()
    assert parent.stop()
else:
    with weir.Worker(store=store, lease='60s'):
        wait_for(ids)
print('all went well')
"""


@pytest.mark.parametrize('worker', ['', 'before the fork'])
def test_a_server_that_forks_after_import_enqueues_and_runs(tmp_path, postgres_url, monkeypatch, worker):
    scene = Scene(tmp_path, postgres_url)
    monkeypatch.setenv('WORKER', worker)
    program = scene.program(PREFORK)
    try:
        assert program.wait(300) == 0, scene.log(program)
        rows = list(scene.store.executions())
        assert ({row['status'] for row in rows}, len(rows)) == ({'COMPLETED'}, 22), rows
    finally:
        scene.close()


# --- the store is away ---


@contextlib.contextmanager
def stopped_server(scene, server):
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextlib.contextmanager
def locked_file(scene, unused):
    """Another program holds the lock for writing."""
    path = scene.url.split(':', 1)[1]
    program = f"""
import sqlite3, pathlib, signal
connection = sqlite3.connect({path!r}, timeout=30, isolation_level=None)
connection.execute('BEGIN IMMEDIATE')
pathlib.Path('locked').touch()
signal.pause()
"""
    holder = scene.program(program)
    wait_until((scene.folder / 'locked').exists, 'the lock')
    try:
        yield
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.parametrize(
    ('kind', 'away', 'words'),
    [('sqlite', locked_file, 'store_busy'), ('postgres', stopped_server, 'store_unreachable')],
)
def test_a_store_that_is_away_beyond_the_lease_loses_nothing_and_is_logged(tmp_path, request, kind, away, words):
    on_server = kind == 'postgres'
    server = request.getfixturevalue('postgres_server') if on_server else None
    scene = Scene(tmp_path, request.getfixturevalue('postgres_url') if on_server else f'sqlite:{tmp_path}/weir.db')
    try:
        worker = scene.worker('--processes', '2', lease='1s')
        ids = [scene.enqueue('waits'), scene.enqueue('waits-async')]
        scene.wait_for_begins(2)
        with away(scene, server):
            with pytest.raises(weir.StoreUnavailable):
                weir.Store(scene.url, deadline='1s').enqueue('acme', 'pid')
            time.sleep(AWAY_SECONDS)
            scene.go()
            wait_until(lambda: len(scene.journal('end')) >= 2)
        assert all(scene.store.result(id, 60) for id in ids)
        ends = {(line['execution'], line['fence']) for line in scene.journal('end')}
        assert len(ends) == len(scene.journal('end')), 'two functions ended under one fence'
        assert scene.store.result(scene.enqueue('pid'), 60) > 0
        assert worker.poll() is None, scene.log(worker)
        lines = [line for line in scene.log(worker).splitlines() if words in line]
        # Of each process at most one in 5 s. A call waits 5 s for a locked file before it fails.
        assert (0 if AWAY_SECONDS < 10 and not on_server else 1) <= len(lines) <= 2 * (2 + AWAY_SECONDS / 5), scene.log(
            worker
        )
        worker.terminate()
        assert worker.wait(60) == 0, scene.log(worker)
    finally:
        scene.close()
