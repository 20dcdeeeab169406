"""gunicorn with pre-fork: its workers are forked from a process that has imported weir, and perhaps has a store open."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import sys

import pytest
from scene import Scene, wait_until

GUNICORN = str(pathlib.Path(sys.executable).with_name('gunicorn'))
WORKERS = 3


class Connection(http.client.HTTPConnection):
    """To a socket of a path."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(90)
        self.sock.connect(self.host)


class Server:
    def __init__(self, scene, *words):
        self.path = str(scene.folder / 'http')
        options = ['--preload', '--workers', str(WORKERS), '--timeout', '120', '--bind', f'unix:{self.path}']
        options += ['--pythonpath', str(APPS), *words]
        self.process = scene.start(GUNICORN, *options, 'preloaded:application')
        wait_until(self.answers, 'an answer of gunicorn')

    def answers(self):
        try:
            return self.get(0)
        except OSError:
            return None

    def get(self, user):
        connection = Connection(self.path)
        try:
            connection.request('GET', f'/{user}')
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


APPS = pathlib.Path(__file__).with_name('apps')


@pytest.fixture
def make_scene(request, tmp_path):
    made = []

    def make(kind):
        url = f'sqlite:{tmp_path}/weir.db' if kind == 'sqlite' else request.getfixturevalue('postgres_url')
        made.append(Scene(tmp_path, url))
        return made[0]

    yield make
    for scene in made:
        scene.close()


@pytest.mark.parametrize('words', [(), ('--threads', '4')], ids=['processes', 'threads'])
@pytest.mark.parametrize('kind', ['sqlite', 'postgres', 'postgres opened before the fork'])
def test_preloaded_workers_enqueue_and_none_is_lost_or_doubled(make_scene, monkeypatch, kind, words):
    if 'opened' in kind:
        monkeypatch.setenv('OPENED_BEFORE_FORK', '1')
    scene = make_scene(kind.split()[0])
    server = Server(scene, *words)
    processes, ids = set(), {}

    def enqueue(user):
        answer = server.get(user)
        assert 'id' in answer, answer
        processes.add(answer['process'])
        assert ids.setdefault(user, answer['id']) == answer['id']  # the same key, perhaps in another process

    users = iter(range(10_000))

    def enqueue_twice():
        user = next(users)
        list(pool.map(enqueue, [user, user]))
        return len(processes) >= WORKERS

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        wait_until(enqueue_twice, 'an enqueue in each worker')
        victim = min(processes)
        os.kill(victim, signal.SIGKILL)  # gunicorn forks another one
        processes.clear()

        def enqueue_in_the_new_one():
            try:
                enqueue_twice()
            except (OSError, http.client.HTTPException):
                return False  # the connection was that of the dead one
            return len(processes - {victim}) >= WORKERS

        wait_until(enqueue_in_the_new_one, 'an enqueue in the new worker')
    assert server.process.pid not in processes
    scene.worker(app='preloaded')
    assert {user: scene.store.result(id, 60) for user, id in ids.items()} == {user: user for user in ids}
    found = [row['id'] for row in scene.store.executions(workspace='acme')]
    assert len(found) == len(set(found))
    assert set(found) >= set(ids.values())
    server.process.terminate()
    assert server.process.wait(60) == 0, scene.log(server.process)


def test_a_sqlite_file_that_was_opened_before_the_fork_is_refused_in_words(make_scene, monkeypatch):
    monkeypatch.setenv('OPENED_BEFORE_FORK', '1')
    scene = make_scene('sqlite')
    answer = Server(scene).get(1)
    assert (answer['status'], 'id' in answer) == ('misuse', False), answer
    assert 'fork' in answer['message'], answer
    assert answer['hint'], answer
    assert scene.store.count() == 0
