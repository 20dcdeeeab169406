"""Functions in a real worker on a real store."""

import asyncio
import contextvars
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import weakref

import pytest
from scene import wait_until

import weir
from weir.testing import run_inline

calls = []


@weir.workflow(name='echo')
def echo(order: int, note: str = '', *, ctx):
    calls.append(ctx)
    return {'order': order, 'note': note, 'workspace': ctx.workspace, 'attempt': ctx.attempt}


@weir.workflow(name='busy-once', retry={'attempts': 3, 'backoff': '1h'})
def busy_once(*, ctx):
    if ctx.attempt == 1:
        raise weir.Retry('bank_busy', 'not now', after=0.001)
    return 'third time'


@weir.workflow(name='refuses')
def refuses():
    raise weir.Fail('card_declined', 'no money')


@weir.workflow(name='broken', retry={'attempts': 2, 'backoff': '1ms'})
def broken():
    raise ZeroDivisionError('by zero')


@weir.workflow(name='exits', retry={'attempts': 1})
def exits():
    raise SystemExit(3)


@weir.workflow(name='no-json')
def no_json():
    return {1, 2}


@weir.workflow(name='pays', retry={'attempts': 1}, secrets=['stripe-key', 'mail.password'])
def pays(fails: bool, *, ctx):
    calls.append(repr(ctx.secrets))
    if fails:
        raise ValueError(f'bad key {ctx.secrets["stripe-key"]}')
    return {'key': ctx.secrets['stripe-key'], 'names': sorted(ctx.secrets)}


@weir.workflow(name='advances')
def advances(fraction: float, text: str, *, ctx):
    ctx.progress(fraction, text.replace('<half>', '\ud800'))
    calls.append(ctx)
    assert gate.wait(60)


@weir.workflow(name='advances-async')
async def advances_async(*, ctx):
    for part in range(101):
        ctx.progress(part / 100, f'{part} of 100')
    ctx.progress(0.75)
    while not gate.is_set():
        await asyncio.sleep(0.005)


own = threading.local()
turn = contextvars.ContextVar('turn', default=0)


class Connection:
    """Anything that a function keeps for the next one on its thread."""


@weir.workflow(name='keeps')
def keeps():
    if not hasattr(own, 'connection'):
        own.connection = Connection()
        calls.append(weakref.ref(own.connection))
    before = turn.get()
    turn.set(before + 1)
    return before


gathered = []
gate = threading.Event()


@weir.workflow(name='naps')
async def naps(number: int):
    gathered.append(number)
    while not gate.is_set():
        await asyncio.sleep(0.005)
    return number


@weir.workflow(name='sleeps-long')
async def sleeps_long():
    gathered.append('began')
    try:
        await asyncio.sleep(3600)
    finally:
        gathered.append('ended')


@weir.workflow(name='works-long')
def works_long(*, ctx):
    gathered.append('began')
    while True:
        ctx.heartbeat()
        time.sleep(0.002)


@pytest.fixture(autouse=True)
def fresh(weir_store):
    weir_store.set_workspace('acme', plan='enterprise')
    calls.clear()
    gathered.clear()
    gate.clear()


def test_a_function_gets_its_params_and_gives_its_result(weir_store, weir_worker):
    id = echo.enqueue(workspace='acme', order=42, key='order-42')
    assert weir_store.result(id, 60) == {'order': 42, 'note': '', 'workspace': 'acme', 'attempt': 1}
    assert echo.enqueue(workspace='acme', order=42, key='order-42') == id
    with pytest.raises(weir.KeyReused):
        echo.enqueue(workspace='acme', order=43, key='order-42')
    assert calls[0].execution_id == id
    assert calls[0].idempotency_key == f'{id}/run'


def test_retry_takes_its_own_delay(weir_store, weir_worker):
    assert weir_store.result(busy_once.enqueue('acme'), 60) == 'third time'


def progress_of(store, id):
    return [(report['attempt'], report['fraction'], report['text']) for report in store.show(id)['progress']]


@pytest.mark.parametrize(
    ('fraction', 'text', 'shown'),
    [
        (0.4, '400 of 1000', (0.4, '400 of 1000')),
        (7, 'a\0b\n<half>', (1.0, 'a b ?')),
        (-1, 'é' * 150, (0.0, 'é' * 100)),
    ],
)
def test_the_progress_of_a_function_is_shown_until_its_end(weir_store, weir_worker, fraction, text, shown):
    id = advances.enqueue('acme', fraction=fraction, text=text)
    wait_until(lambda: progress_of(weir_store, id) == [(1, *shown)], 'the progress')
    gate.set()
    assert weir_store.wait(id, 60)['progress'] == []
    calls[0].progress(0.9)  # after the end: nothing


def test_the_last_progress_of_a_coroutine_is_shown(weir_store, weir_worker):
    id = advances_async.enqueue('acme')
    wait_until(lambda: progress_of(weir_store, id) == [(1, 0.75, None)], 'the progress')
    gate.set()
    weir_store.result(id, 60)


def test_progress_is_a_number():
    with run_inline() as runs:
        gate.set()
        advances.enqueue('acme', fraction=0.5, text='half')
        assert runs[0].progress == [(0.5, 'half')]
        calls[0].progress(None)
        assert runs[0].progress[1:] == [(None, None)]
        calls[0].progress(0.7, 42)
        assert runs[0].progress[2:] == [(0.7, '42')]
        with pytest.raises(TypeError):
            calls[0].progress([])


@pytest.mark.parametrize(
    ('workflow', 'code', 'message'),
    [
        (refuses, 'card_declined', 'no money'),
        (broken, 'zero_division_error', 'by zero'),
        (exits, 'system_exit', '3'),
        (no_json, 'result_not_json', 'set'),
    ],
)
def test_failures_have_a_code_and_words(weir_store, weir_worker, workflow, code, message):
    with pytest.raises(weir.ExecutionFailed) as problem:
        weir_store.result(workflow.enqueue('acme'), 60)
    assert problem.value.code == code
    assert message in str(problem.value)
    assert weir_store.result(echo.enqueue('acme', order=1), 60)['order'] == 1  # the worker goes on


def test_a_hundred_coroutines_share_one_loop(weir_store, weir_worker):
    weir_store.set_workspace('acme', max_concurrent=100)
    ids = [naps.enqueue('acme', number=number) for number in range(100)]
    wait_until(lambda: len(gathered) == 100)
    gate.set()
    assert [weir_store.result(id, 60) for id in ids] == list(range(100))


def test_the_cap_of_a_workspace_holds_for_coroutines(weir_store, weir_worker):
    weir_store.set_workspace('acme', max_concurrent=3)
    ids = [naps.enqueue('acme', number=number) for number in range(10)]
    wait_until(lambda: len(gathered) >= 3)
    wait_until(lambda: weir_store.why(ids[9])['pending_reason'] == 'workspace_at_capacity')
    assert len(gathered) == 3
    gate.set()
    assert sorted(weir_store.result(id, 60) for id in ids) == list(range(10))


@pytest.mark.parametrize('workflow', [sleeps_long, works_long])
def test_cancel_ends_a_function(weir_store, weir_worker, workflow):
    id = workflow.enqueue('acme')
    wait_until(lambda: gathered == ['began'])
    weir_store.cancel(id, 'changed my mind')
    assert weir_store.wait(id, 60)['status'] == 'CANCELLED'
    if workflow is sleeps_long:
        assert gathered == ['began', 'ended']


def test_a_stopped_worker_gives_back_what_runs(weir_store):
    worker = weir.Worker(store=weir_store)
    worker.start()
    id = sleeps_long.enqueue('acme')
    wait_until(lambda: gathered == ['began'])
    assert worker.stop(0) is False
    assert gathered == ['began', 'ended']
    assert worker.stop() is True  # once more does nothing
    with pytest.raises(weir.StoreUnavailable):
        worker.check()
    with weir.Worker(store=weir_store, grace=0.01):
        wait_until(lambda: gathered == ['began', 'ended', 'began'])
        wait_until(lambda: weir_store.show(id)['status'] == 'DISPATCHED')


def test_params_of_another_caller_that_do_not_fit_fail_at_once(weir_store, weir_worker):
    id = weir_store.enqueue('acme', 'echo', {'order': 'many'})
    with pytest.raises(weir.ExecutionFailed) as problem:
        weir_store.result(id, 60)
    assert problem.value.code == 'params_invalid'
    assert calls == []


def test_a_closed_call_cannot_be_used(weir_store, weir_worker):
    weir_store.result(echo.enqueue('acme', order=1), 60)
    with pytest.raises(weir.Misuse, match='has ended'):
        calls[0].heartbeat()


def test_enqueue_without_a_worker_publishes_the_workflow(weir_store):
    id = echo.enqueue('acme', order=1)
    assert weir_store.why(id)['pending_reason'] in ('no_node_in_group', 'no_scheduler')


def test_a_thread_keeps_its_thread_locals_from_call_to_call_and_frees_them_at_its_end(weir_store):
    with weir.Worker(store=weir_store, threads=1):
        for id in [keeps.enqueue('acme') for _ in range(5)]:
            weir_store.result(id, 60)
        assert len(calls) == 1
        assert calls[0]() is not None
    assert calls[0]() is None


def test_a_context_variable_ends_with_its_call(weir_store):
    with weir.Worker(store=weir_store, threads=1):
        assert [weir_store.result(keeps.enqueue('acme'), 60) for _ in range(3)] == [0, 0, 0]


SMALL = """
import sys, weir
@weir.workflow(name='small')
def small():
    return 'done'
store = weir.configure(sys.argv[1])
store.migrate()
store.set_workspace('acme', plan='free')
with weir.Worker(threads=1):
    assert store.result(small.enqueue('acme'), 60) == 'done'
unused = ('asyncio', 'inspect', 'dataclasses', 'datetime', 'sqlite3', 'urllib.parse', 'weir.transactions', 'weir._states')
print([name for name in unused if name in sys.modules])
print([name for name in ('libcrypto', 'libssl', 'libpq', 'libcurl') if name in open('/proc/self/maps').read()])
"""
OPENSSL = """
import sys, weir
store = weir.configure(sys.argv[1])
store.migrate()
id = '01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79'
try:
    store.call_back(f'{id}.weir_' + 43 * 'A', 'done')
except weir.Error as problem:
    print(problem)
print('libcrypto' in open('/proc/self/maps').read())
"""


def test_a_worker_does_not_load_what_it_has_no_use_for(tmp_path):
    words = [sys.executable, '-c', SMALL, f'sqlite:{tmp_path}/weir.db']
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout == '[]\n[]\n'


def _call_back_of(packages, tmp_path):
    """The output of a program that looks for weir in this folder first."""
    words = [sys.executable, '-c', OPENSSL, f'sqlite:{tmp_path}/weir.db']
    done = subprocess.run(
        words, check=True, capture_output=True, text=True, env={**os.environ, 'PYTHONPATH': str(packages)}
    )
    return done.stdout


def test_openssl_is_loaded_for_a_token(tmp_path):
    written = _call_back_of('', tmp_path)
    assert 'OpenSSL' not in written
    assert written.endswith('True\n')


def test_openssl_that_cannot_be_loaded_is_named(tmp_path):
    place = pathlib.Path(weir.__file__).parent
    shutil.copytree(place, tmp_path / 'weir')
    libraries = place.with_name('weir.libs')
    shutil.copytree(libraries, tmp_path / 'weir.libs', ignore=shutil.ignore_patterns('libssl*'))
    written = _call_back_of(tmp_path, tmp_path)
    assert 'TLS and tokens need OpenSSL' in written
    assert 'apt-get install libssl3' in written
    assert written.endswith('False\n')


def test_errors_carry_status_and_hint(weir_store):
    with pytest.raises(weir.WorkspaceNotFound) as problem:
        echo.enqueue('acme-corp', order=1)
    assert problem.value.status == 'workspace_not_found'
    with pytest.raises(weir.ExecutionNotFound):
        weir_store.show('01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79')
    with pytest.raises(weir.StoreUnavailable):
        weir.Store('sqlite:/nonexistent/weir.db').show('01939b7e')


def test_the_end_of_an_execution_that_no_service_runs_is_refused(weir_store, weir_worker):
    id = naps.enqueue('acme', number=1)
    wait_until(lambda: gathered == [1])
    with pytest.raises(weir.Error) as problem:
        weir_store.complete(id, 'run', result={'done': True})
    assert problem.value.status == 'illegal_state'
    gate.set()
    assert weir_store.result(id, 60) == 1
    with pytest.raises(weir.ExecutionNotFound):
        weir_store.complete('01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79', 'run', failed='declined', error='no money')


def test_a_set_is_enqueued_at_once(weir_store):
    echo.publish(weir_store)
    ids = weir_store.enqueue_many([weir.Request('acme', 'echo', {'order': n}) for n in range(50)])
    assert len(set(ids)) == 50
    with pytest.raises(weir.EnqueueManyError) as problem:
        weir_store.enqueue_many([weir.Request('acme', 'echo', {'order': 1}), weir.Request('nobody', 'echo')])
    assert isinstance(problem.value.results[0], str)
    assert isinstance(problem.value.results[1], weir.WorkspaceNotFound)


def test_a_child_of_fork_opens_its_own_store(weir_store):
    echo.publish(weir_store)
    child = os.fork()
    if child == 0:
        try:
            weir_store.enqueue('acme', 'echo', {'order': 1})
        except weir.Misuse:
            os._exit(0)  # SQLite's locks are the parent's
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    weir_store.enqueue('acme', 'echo', {'order': 2})


def test_a_function_has_its_secrets_and_no_other_place_has_them(weir_store, tmp_path, monkeypatch, caplog):
    folder = tmp_path / 'secrets'
    folder.mkdir()
    (folder / 'mail.password').write_text('correct horse\n')
    monkeypatch.setenv('WEIR_SECRETS_DIRECTORY', str(folder))
    monkeypatch.setenv('WEIR_SECRET_STRIPE_KEY', 'hunter22"x"')
    with weir.Worker([pays, echo], store=weir_store, name='node-7'):
        done = pays.enqueue('acme', fails=False)
        assert weir_store.result(done, 60) == {'key': '***', 'names': ['mail.password', 'stripe-key']}
        failed = pays.enqueue('acme', fails=True)
        with pytest.raises(weir.ExecutionFailed):
            weir_store.result(failed, 60)
        assert weir_store.show(failed)['error'] == 'ValueError: bad key ***'
        assert 'bad key ***' in caplog.text
        assert 'hunter22' not in caplog.text
        assert calls == ['<secrets stripe-key, mail.password>'] * 2
        (folder / 'mail.password').unlink()
        waits = pays.enqueue('acme', fails=False)
        wait_until(lambda: weir_store.show(waits)['error_code'] == 'secret_missing')
        assert 'node node-7, step run: the secret "mail.password" is missing' in weir_store.show(waits)['error']


def test_secrets_are_names():
    for wrong in ('key', ['a b'], ['../a'], [1]):
        with pytest.raises(weir.DefinitionError, match='no names of secrets'):
            weir.workflow(name='wrong', secrets=wrong)(lambda: None)


def test_run_inline_takes_secrets_from_the_environment(monkeypatch):
    from weir.testing import run_inline

    monkeypatch.setenv('WEIR_SECRET_STRIPE_KEY', 'of the test')
    with run_inline() as runs:
        pays.enqueue('acme', fails=False)
    assert runs[0].result == {'key': 'of the test', 'names': ['stripe-key']}


def test_an_endless_loop_of_threads_ends_with_the_worker(weir_store, weir_worker):
    id = works_long.enqueue('acme')
    wait_until(lambda: gathered == ['began'])
    assert weir_worker.stop(0.01) is False
    assert weir_store.show(id)['node'] is None


# --- mistakes that are found at the start ---


def made(name, **options):
    return weir.workflow(name=name, register=weir.Registry(), **options)(lambda: None)


def test_a_changed_definition_is_logged_with_file_and_line(weir_store, caplog):
    caplog.set_level('INFO', 'weir')
    for timeout, words in (('1s', None), ('1s', None), ('2s', 'has the new version 2, because its definition changed')):
        caplog.clear()
        with weir.Worker([made('changes', timeout=timeout)], store=weir_store):
            found = [record for record in caplog.records if 'version' in record.message]
        assert [record.levelname for record in found] == ([] if words is None else ['INFO'])
        assert all(re.search(rf'test_worker\.py:\d+: changes {words}', record.message) for record in found)


def test_two_programs_with_different_definitions_of_one_name_are_warned(weir_store, caplog):
    caplog.set_level('INFO', 'weir')
    for timeout in ('1s', '2s'):
        made('contested', timeout=timeout).publish(weir_store)
    assert [record for record in caplog.records if record.levelname == 'WARNING'] == []
    made('contested', timeout='1s').publish(weir_store)
    (warning,) = [record.message for record in caplog.records if record.levelname == 'WARNING']
    assert re.search(r'test_worker\.py:\d+: contested has the new version 3, which is version 1 again', warning)


def test_a_worker_of_another_group_names_what_it_does_not_run(weir_store, caplog):
    with weir.Worker([echo, made('draws', executor_group='gpu')], store=weir_store):
        (warning,) = [record.message for record in caplog.records if record.levelname == 'WARNING']
    assert re.search(r'test_worker\.py:\d+: draws is of the group gpu.*start one with --executor-group gpu', warning)
    with pytest.raises(weir.DefinitionError, match=r'draws at .*test_worker\.py:\d+ is of the group gpu') as problem:
        weir.Worker([made('draws', executor_group='gpu')], store=weir_store)
    assert '--executor-group gpu' in problem.value.hint
    weir.Worker([made('draws', executor_group='gpu')], store=weir_store, executor_group='gpu')


def test_a_definition_that_the_store_refuses_is_named_with_file_and_line(weir_store):
    with pytest.raises(weir.Error, match=r'test_worker\.py:\d+.*attempts'):
        weir.Worker([made('tries', retry={'attempts': 'five'})], store=weir_store).start()


def test_a_worker_names_the_functions_of_the_program_that_it_does_not_run(weir_store, caplog, monkeypatch):
    caplog.set_level('INFO', 'weir')
    own = weir.Registry()
    monkeypatch.setattr(weir.worker, 'registry', own)
    weir.workflow(name='other', register=own)(lambda: None)
    with weir.Worker([echo], store=weir_store):
        pass
    with weir.Worker(store=weir_store):
        pass
    (line,) = [record.message for record in caplog.records if 'no handler' in record.message]
    assert re.search(r'no handler for other \(.*test_worker\.py:\d+\): another one must', line)
