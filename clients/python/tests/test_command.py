"""The command `weir`: workers as processes, and the program that comes with the package."""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from scene import wait_until

import weir
from weir import _command

WEIR = str(pathlib.Path(sys.executable).with_name('weir'))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'tasks.py').write_text(
        textwrap.dedent("""
        import os, time
        import weir

        @weir.workflow(name='who')
        def who():
            return os.getpid()

        @weir.workflow(name='waits')
        def waits(*, ctx):
            open(f'began-{ctx.attempt}', 'w').write(str(os.getpid()))
            while not os.path.exists('go'):
                time.sleep(0.005)
            return 'went'

        @weir.workflow(name='dies', retry={'attempts': 5, 'backoff': '1ms'})
        def dies(*, ctx):
            if not os.path.exists('died'):
                open('died', 'w').close()
                os._exit(9)
            return 'lived'
    """)
    )
    return tmp_path


@pytest.fixture
def store(folder):
    store = weir.Store(f'sqlite:{folder}/weir.db')
    store.migrate()
    store.set_workspace('acme', plan='enterprise')
    yield store
    store.close()


@pytest.fixture
def run(folder):
    started = []

    def start(*arguments, stderr=subprocess.PIPE):
        child = subprocess.Popen([WEIR, 'worker', *arguments], cwd=folder, stderr=stderr, stdout=subprocess.PIPE, text=True)
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.terminate()
        child.communicate(timeout=60)


def enqueue(folder, name, store):
    definition = f'{{"name": "{name}", "steps": {{"run": {{"handler": "{name}"}}}}}}'
    store.publish(definition)
    return store.enqueue('acme', name)


def wait_for_file(path):
    wait_until(lambda: path.exists() and path.read_text(), path)
    return path.read_text()


def has_ended(pid):
    try:
        state = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == 'Z'  # nobody may reap it here


def test_the_program_of_the_package_runs():
    assert subprocess.run([WEIR, 'version'], capture_output=True, text=True, check=True).stdout.startswith('weir 0.1.0')


def test_a_worker_runs_what_was_enqueued_and_stops_gracefully(folder, store, run):
    worker = run('tasks')
    waits = enqueue(folder, 'waits', store)
    wait_for_file(folder / 'began-1')
    worker.send_signal(signal.SIGTERM)
    (folder / 'go').touch()
    assert worker.wait(60) == 0
    assert store.show(waits)['status'] == 'COMPLETED'
    assert store.result(waits, 60) == 'went'


def test_several_processes_share_the_work_and_one_that_dies_is_started_again(folder, store, run):
    worker = run('tasks', '--processes', '2')
    assert isinstance(store.result(enqueue(folder, 'who', store), 60), int)
    assert store.result(enqueue(folder, 'dies', store), 60) == 'lived'
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0


def test_processes_end_with_their_supervisor(folder, store, run):
    worker = run('tasks', '--processes', '2')
    child = store.result(enqueue(folder, 'who', store), 60)
    worker.kill()
    worker.communicate(timeout=60)  # the pipe ends with the last process that has it
    wait_until(lambda: has_ended(child), f'the end of the process {child}')


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['nothing_here'], "there is no module 'nothing_here'"),
        (['json'], 'there is no workflow'),
        (['tasks', '--threads', '99'], 'at most 16'),
        (['tasks', '--store', 'mysql://x'], 'mysql'),
    ],
)
def test_mistakes_are_named(folder, run, arguments, words):
    worker = run(*arguments)
    _, errors = worker.communicate(timeout=60)
    assert worker.returncode == 2
    assert words in errors
    assert 'Traceback' not in errors


def replace_module(folder, text, seconds):
    """At once, so that nobody loads a half of it, and with a later time."""
    changed = folder / 'changed'
    changed.write_text(text)
    os.utime(changed, (time.time() + seconds, time.time() + seconds))
    changed.replace(folder / 'tasks.py')


def test_a_changed_module_is_loaded_again_also_after_a_mistake(folder, store, run):
    errors = folder / 'errors'
    with errors.open('w') as stderr:
        run('tasks', '--reload', stderr=stderr)
    enqueue(folder, 'who', store)
    first = store.result(enqueue(folder, 'who', store), 60)
    text = (folder / 'tasks.py').read_text()
    replace_module(folder, 'import weir\n', 5)  # it has no workflow
    wait_until(lambda: 'again when a module changes' in errors.read_text(), 'the end of the worker')
    replace_module(folder, text.replace('return os.getpid()', 'return -os.getpid()'), 10)
    wait_until(lambda: store.result(enqueue(folder, 'who', store), 60) < 0, 'the reload')
    assert first > 0


@pytest.mark.parametrize(
    ('problem', 'code'),
    [
        (weir.StoreUnavailable('the server is away'), 1),
        (weir.CommitUnknown('no answer to the commit'), 1),
        (weir.DefinitionError('tasks.py:1: no name'), 2),
        (ValueError('no duration'), 2),
    ],
)
def test_a_store_that_went_away_at_the_start_is_no_mistake(problem, code):
    """A supervisor starts such a process again, and ends with one that exits with 2."""

    def make():
        raise problem

    options = argparse.Namespace(processes=1, reload=False)
    assert _command.run(options, False, make, []) == code
