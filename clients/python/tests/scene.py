"""Worker processes on a store, for tests of faults: they run tests/apps in a folder of the test's own."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import weir

WEIR = str(pathlib.Path(sys.executable).with_name('weir'))
APPS = pathlib.Path(__file__).with_name('apps')
DEADLINE_SECONDS = 120


def wait_until(condition, what='it'):
    until = time.monotonic() + DEADLINE_SECONDS
    while not (found := condition()):
        if time.monotonic() > until:
            raise AssertionError(f'{what} did not happen')
        time.sleep(0.005)
    return found


class Scene:
    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        self.children = []
        self.store = weir.Store(url)
        if not self.store.is_server():
            self.store.migrate()
        self.store.set_workspace('acme', plan='enterprise')

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGCONT)
                child.kill()
            child.wait()
        self.store.close()

    def worker(self, *words, app='faulty', lease='60s'):
        """`lease`: a loaded machine does not end the default one. The death of a process shows itself without it."""
        return self.start(WEIR, 'worker', app, '--store', self.url, '--lease', lease, *words)

    def observer(self):
        """A worker that runs nothing. It soon hands over what others hold whose lease is over: a new node believes all
        leases of its machine for one lease of its own, and that of the observer is short."""
        return self.worker(app='observer', lease='3s')

    def program(self, text):
        return self.start(sys.executable, '-c', text)

    def start(self, *words):
        path = self.folder / f'log-{len(self.children)}'
        environment = {**os.environ, 'PYTHONPATH': str(APPS), 'WEIR_STORE': self.url, 'PYTHONFAULTHANDLER': ''}
        with path.open('wb') as log:
            child = subprocess.Popen(words, cwd=self.folder, stdout=log, stderr=log, env=environment)
        child.log_path = path
        self.children.append(child)
        return child

    def log(self, child):
        return child.log_path.read_text(errors='replace')

    def wait_for_log(self, child, text):
        wait_until(lambda: text in self.log(child), f'{text!r} in the log')

    def enqueue(self, name, workspace='acme', **params):
        try:
            return self.store.enqueue(workspace, name, params)
        except weir.WorkflowNotFound:
            wait_until(lambda: any(row['name'] == name for row in self.store.workflows()), f'the publication of {name}')
            return self.store.enqueue(workspace, name, params)

    def journal(self, event=None, execution=None):
        """The last line may be written at this moment."""
        try:
            whole, _, _ = (self.folder / 'journal').read_text().rpartition('\n')
        except FileNotFoundError:
            return []
        noted = [json.loads(line) for line in whole.splitlines()]
        return [one for one in noted if event in (None, one['event']) and execution in (None, one['execution'])]

    def wait_for_begins(self, count, execution=None):
        wait_until(lambda: len(self.journal('begin', execution)) >= count, f'begin {count}')
        return self.journal('begin', execution)

    def go(self):
        (self.folder / 'go').touch()
