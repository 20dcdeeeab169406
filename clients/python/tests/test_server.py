"""A server before the store: the same decorators, by `https://` in place of the store's own URL."""

import asyncio
import contextlib
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import threading
import time

import pytest
from conftest import SOURCE
from scene import WEIR, Scene, wait_until

import weir
from weir._workflow import Secrets

CASES = json.loads((SOURCE / 'tests' / 'workers' / 'cases.json').read_text())['cases']


class Server:
    """A node with a listener, and its store, in a folder. start() again has the same address."""

    def __init__(self, folder, scheme='http', settings='', task_lease='30s'):
        """The leases are so long that no loaded machine ends one."""
        self.folder, self.scheme, self.port = pathlib.Path(folder), scheme, 0
        (self.folder / 'weir.yaml').write_text(f'http.task_lease: {task_lease}\nnode.lease: 30s\n{settings}')
        self.run('store', 'init', '-q')
        self.run('workspace', 'set', 'acme', '--plan', 'enterprise', '-q')
        self.start()

    def run(self, *words):
        environment = {key: value for key, value in os.environ.items() if not key.startswith('WEIR_')}
        return subprocess.run(
            [WEIR, *words], cwd=self.folder, env=environment, check=True, capture_output=True, text=True
        ).stdout

    def start(self):
        address = f'{self.scheme}://127.0.0.1:{self.port}' if self.scheme == 'https' else f'127.0.0.1:{self.port}'
        environment = {key: value for key, value in os.environ.items() if not key.startswith('WEIR_')}
        self.process = subprocess.Popen(
            [WEIR, 'serve', '--listen', address],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in self.process.stderr:
            if found := re.search(r'http at \S*127\.0\.0\.1:(\d+)', line):
                self.port = int(found[1])
                break
        else:
            raise AssertionError('the server does not listen')
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def token(self, name, role):
        return self.run('token', 'create', name, '--role', role, '--all-workspaces', '-q').strip()

    @property
    def url(self):
        return f'{self.scheme}://127.0.0.1:{self.port}'


@pytest.fixture
def server(request, tmp_path, monkeypatch):
    """Its parameter: the lease of its tasks."""
    for name in ('WEIR_TOKEN', 'WEIR_TOKEN_FILE', 'WEIR_CA_FILE'):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / 'server'
    folder.mkdir()
    made = Server(folder, task_lease=getattr(request, 'param', '30s'))
    yield made
    made.kill()


@pytest.fixture
def scene(tmp_path, server):
    made = Scene(tmp_path, server.url)
    yield made
    made.close()


# --- the cases of all clients ---

begun = threading.Event()


def act_of(acts, attempt):
    ((act, value),) = acts[min(attempt, len(acts)) - 1].items()
    begun.set()
    return act, value


def do(act, value):
    if act == 'complete':
        return value
    if act == 'raise':
        raise RuntimeError(value)
    if act == 'fail':
        raise weir.Fail(value['code'], value['error'])
    after = value.get('after_us')
    raise weir.Retry(value['code'], value['error'], after=None if after is None else after / 1e6)


def report_progress(ctx, fraction, text, repeat=1):
    ctx.progress(fraction, text and text * repeat)


@weir.workflow(name='scripted')
def scripted(acts: list, *, ctx):
    act, value = act_of(acts, ctx.attempt)
    if act == 'report_progress':
        report_progress(ctx, **value)
    if act in ('await_cancel', 'report_progress'):
        wait_until(lambda: ctx.cancelled, 'the cancel')
        return None
    if act == 'await_stop':
        wait_until(lambda: ctx.cancelled, 'the stop')
        raise RuntimeError('stopped')
    return do(act, value)


@weir.workflow(name='scripted-async')
async def scripted_async(acts: list, *, ctx):
    act, value = act_of(acts, ctx.attempt)
    if act == 'report_progress':
        report_progress(ctx, **value)
    if act in ('await_cancel', 'await_stop', 'report_progress'):
        await asyncio.sleep(60)
    return do(act, value)


SCRIPTED = [scripted, scripted_async]


def progress_of(store, id):
    return [{key: report[key] for key in ('fraction', 'text')} for report in store.show(id)['progress']]


@pytest.mark.parametrize('handler', ['scripted', 'scripted-async'])
@pytest.mark.parametrize('case', CASES, ids=[case['name'] for case in CASES])
def test_the_cases_of_all_clients(server, handler, case):
    store = weir.Store(server.url)
    definition = {'name': 'case', 'steps': {'only': {'handler': handler, **case.get('workflow', {})}}}
    with contextlib.ExitStack() as workers:
        worker = workers.enter_context(weir.Worker(SCRIPTED, store=store))
        store.publish(json.dumps(definition))
        begun.clear()
        id = store.enqueue('acme', 'case', {'acts': case['acts']})
        if 'progress' in case:
            wait_until(lambda: progress_of(store, id) == [case['progress']], 'the progress')
        if case.get('cancel'):
            assert begun.wait(60)
            store.cancel(id)
        if case.get('stop'):
            assert begun.wait(60)
            stopped = time.monotonic()
            assert not worker.stop(0)
            workers.enter_context(weir.Worker(SCRIPTED, store=store))
        shown = store.wait(id, 60)
        assert not case.get('stop') or time.monotonic() - stopped < 20
    (step,) = shown['steps']
    expected = case['expect']
    assert (shown['status'], shown['error_code']) == (expected['status'], expected.get('error_code'))
    assert {key: step[key] for key in expected if key in step and key not in ('status', 'error_code')} == {
        key: value for key, value in expected.items() if key in step and key not in ('status', 'error_code')
    }
    store.close()


# --- servers and workers that end ---


@pytest.mark.parametrize('server', ['20s'], indirect=True)
def test_a_killed_worker_leaves_its_executions_to_another(scene):
    worker = scene.worker('--threads', '4')
    ids = [scene.enqueue('waits') for _ in range(4)]
    scene.wait_for_begins(4)
    worker.kill()
    worker.wait()
    scene.worker('--threads', '4')
    scene.wait_for_begins(8)
    scene.go()
    for id in ids:
        scene.store.result(id, 60)
    assert len(scene.journal('begin')) == 8


def test_a_run_outlives_its_server(scene, server):
    scene.worker('--threads', '4')
    id = scene.enqueue('waits')
    scene.wait_for_begins(1)
    server.kill()
    server.start()
    scene.go()
    scene.store.result(id, 60)
    assert len(scene.journal('begin')) == 1


def test_a_stopped_worker_delivers_its_results(scene):
    worker = scene.worker('--threads', '4')
    id = scene.enqueue('waits')
    scene.wait_for_begins(1)
    worker.send_signal(signal.SIGTERM)
    scene.wait_for_log(worker, 'takes nothing more')
    scene.go()
    assert worker.wait(60) == 0
    assert scene.store.show(id)['status'] == 'COMPLETED'


def test_a_secret_that_stays_on_the_server_is_explained():
    with pytest.raises(KeyError, match="'stripe-key' has no value here: a server sends its workers none"):
        Secrets({}, ['stripe-key'])['stripe-key']
    with pytest.raises(KeyError, match="the workflow does not name the secret 'stripe-key'"):
        Secrets({}, ['other'])['stripe-key']


# --- tokens, TLS ---


def test_a_wrong_token_is_refused_in_words(server, monkeypatch):
    server.token('any', 'admin')
    monkeypatch.setenv('WEIR_TOKEN', 'weir_wrong')
    with pytest.raises(weir.Error) as refusal:
        weir.Store(server.url).enqueue('acme', 'scripted')
    assert refusal.value.status == 'not_permitted'
    assert 'WEIR_TOKEN' in refusal.value.hint
    with pytest.raises(weir.Error) as refusal:
        weir.Worker(SCRIPTED, store=weir.Store(server.url)).start()
    assert refusal.value.status == 'not_permitted'


def test_a_token_that_may_not_publish_runs_what_the_server_knows(server, monkeypatch, caplog):
    monkeypatch.setenv('WEIR_TOKEN', server.token('publisher', 'admin'))
    with weir.Store(server.url) as store:
        scripted.publish(store)
    monkeypatch.setenv('WEIR_TOKEN', server.token('worker', 'operate'))
    with weir.Store(server.url) as store, weir.Worker([scripted], store=store):
        assert store.result(store.enqueue('acme', 'scripted', {'acts': [{'complete': 7}]}), 60) == 7
    assert 'scripted is not published by this worker' in caplog.text


def test_a_revoked_token_ends_the_worker(scene, server, monkeypatch):
    admin = server.token('publisher', 'admin')
    monkeypatch.setenv('WEIR_TOKEN', server.token('worker', 'admin'))
    worker = scene.worker()
    scene.wait_for_log(worker, 'the worker runs')
    monkeypatch.setenv('WEIR_TOKEN', admin)
    server.run('token', 'revoke', 'worker', '-q')
    assert worker.wait(60) == 1
    assert 'the worker ends: ' in scene.log(worker)


def test_a_server_with_tls_is_known_by_its_authority(tmp_path, monkeypatch):
    key, certificate = tmp_path / 'server.key', tmp_path / 'server.pem'
    subprocess.run(
        ['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=test', '-addext']
        + ['subjectAltName=IP:127.0.0.1', '-out', certificate, '-keyout', key],
        check=True,
        capture_output=True,
    )
    key.chmod(0o600)
    server = Server(tmp_path, 'https', f'http.tls:\n  certificate_file: {certificate}\n  key_file: {key}\n')
    try:
        with pytest.raises(weir.StoreUnavailable, match='certificate'):
            weir.Store(server.url).show('x')
        monkeypatch.setenv('WEIR_CA_FILE', str(certificate))
        monkeypatch.setenv('WEIR_TOKEN', server.token('worker', 'admin'))
        with weir.Store(server.url) as store, weir.Worker([scripted], store=store):
            assert store.result(store.enqueue('acme', 'scripted', {'acts': [{'complete': 7}]}), 60) == 7
    finally:
        server.kill()


# --- the store ---


def test_the_calls_of_a_store_work_through_a_server(server):
    store = weir.Store(server.url)
    scripted.publish(store)
    request = weir.Request('acme', 'scripted', {'acts': [{'complete': 1}]}, key='one')
    (first,) = store.enqueue_many([request])
    assert store.enqueue('acme', 'scripted', {'acts': [{'complete': 1}]}, key='one') == first
    with pytest.raises(weir.KeyReused):
        store.enqueue('acme', 'scripted', {'acts': []}, key='one')
    wait_until(lambda: store.why(first)['pending_reason'] == 'no_worker')  # an elected scheduler says it
    assert store.usage('acme')['plan'] == 'enterprise'
    store.cancel(first, 'no need')
    assert store.wait(first, 60)['status'] == 'CANCELLED'
    assert store.show(store.retry(first))['status'] == 'PENDING'
    assert store.count(workflow='scripted') == len(list(store.executions(workflow='scripted'))) == 2
    assert [row['name'] for row in store.workflows()] == ['scripted']
    assert store.events(first)
    store.pause_workspace('acme')
    store.resume_workspace('acme')
    store.close()


def test_an_enqueue_through_a_server_warns_of_a_function_without_worker(server, caplog):
    with weir.Store(server.url) as store:
        scripted.publish(store)
        scripted.enqueue('acme', acts=[], store=store)
    assert 'no live worker of the group default has the handler scripted' in caplog.text


def test_what_needs_the_store_itself_says_so(server):
    store = weir.Store(server.url)
    with pytest.raises(weir.Error, match='does not make a store'):
        store.migrate()
    with sqlite3.connect(':memory:') as connection, pytest.raises(weir.Misuse, match='behind a server'):
        scripted.enqueue(workspace='acme', acts=[], using=connection, store=store)
    store.close()
