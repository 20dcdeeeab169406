"""A real Temporal service and a real worker for tests: started on a free loopback port, stopped at the end by their process
ids. Where they are not installed, the test programs that need them say so and run nothing."""

import atexit
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from ports import free_port
from waiting import wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
START_SECONDS = 300  # of the server, and of a program that asks it: on a machine that is busy with other things
START_TRIES = 4
NOT_INSTALLED = 'no Temporal server is installed for tests: sh tools/install_temporal.sh says what it needs'
READS = ('runs', 'memo', 'roots', 'about', 'query', 'payloads', 'memo_encodings')  # questions of temporal_ask.py
SICK = ('interrupted (9)', 'is not found')  # see Server.mend()


def installed():
    installer = os.path.join(ROOT, 'tools', 'install_temporal.sh')
    folder = subprocess.run([installer, 'where'], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return folder if os.path.exists(os.path.join(folder, 'complete')) else None


FOLDER = installed()


def skip_unless_installed():
    if FOLDER is None:
        print(f'1..0 # SKIP {NOT_INSTALLED}')
        sys.exit(0)


class Asker:
    """Whom to ask about a service with the official SDK: one process for all questions of this test program."""

    def __init__(self):
        self.process = None
        self.lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, *words):
        """(what was told, what went wrong or '')"""
        with self.lock:
            if self.process is None:
                self.process = subprocess.Popen(
                    [os.path.join(FOLDER, 'venv', 'bin', 'python'), os.path.join(HERE, 'temporal_ask.py'), 'serve'],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.process.stdin.write(json.dumps(words) + '\n')
            self.process.stdin.flush()
            answered, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
            line = self.process.stdout.readline() if answered else ''
            assert line, f'nothing was answered to {words}'
            answer = json.loads(line)
            return answer['out'], answer['problem']

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


ASKER = Asker()


SERVERS = []  # that are not closed


class Server:
    """The development server. Its data are on a file, so they are still there after kill() and start(); in memory, a busy
    one was seen to lose them all."""

    def __init__(self, settings=(), namespaces=(), words=()):
        self.folder = tempfile.mkdtemp(prefix='weir-temporal-')
        self.port = self.address = None
        self.log = os.path.join(self.folder, 'log')
        self.command = [os.path.join(FOLDER, 'bin', 'temporal'), 'server', 'start-dev', '--headless', '--ip', '127.0.0.1',
                        '--log-level', 'error', '--db-filename', os.path.join(self.folder, 'temporal.db'),
                        '--sqlite-pragma', 'journal_mode=WAL', '--sqlite-pragma', 'synchronous=NORMAL']
        for namespace in namespaces:
            self.command += ['--namespace', namespace]
        for setting in settings:
            self.command += ['--dynamic-config-value', setting]
        self.command += words
        self.process = None
        self.workers = []
        SERVERS.append(self)
        atexit.register(self.close)
        self.start(anywhere=True)

    def start(self, anywhere=False):
        for _ in range(START_TRIES):
            self.port = free_port() if anywhere else self.port
            if self.try_start():
                return
        raise AssertionError(f'the server ended with {self.process.returncode}')

    def try_start(self):
        """False when it ended at once, as it does when another program has taken one of its ports in the meantime."""
        self.address = f'127.0.0.1:{self.port}'
        environment = {**os.environ, 'HOME': self.folder}
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen([*self.command, '--port', str(self.port)], cwd=self.folder, env=environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for('the server', lambda: self.process.poll() is not None or self.is_ready(), START_SECONDS)
        return self.process.poll() is None

    def start_and_watch(self):
        """Starts it again, and returns the moment at which it took connections."""
        moments = []

        def watch():
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(('127.0.0.1', self.port)) == 0:
                        moments.append(time.time())
                        return
                time.sleep(0.005)
        watching = threading.Thread(target=watch)
        watching.start()
        self.start()
        watching.join()
        return moments[0]

    def is_ready(self):
        return self.problem() == ''

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def mend(self):
        """Restarts it when it cannot go on, and says whether it did. Where many calls are given up, as clients die, its
        only connection to SQLite may stay interrupted for ever: it answers everybody with "interrupted (9)", and later
        that the namespace is not found. Its data are on a file, so a restart is one more fault, and no more."""
        if self.process is None:
            return False  # it was killed on purpose
        code = self.process.poll()
        problem = f'it ended with {code}' if code is not None else self.problem()
        if code is None and not any(words in problem for words in SICK):
            return False
        with open(self.log, errors='replace') as log:
            last_words = '# '.join(log.readlines()[-5:])
        print(f'# the development server is restarted: {problem}; its last words:\n# {last_words}', flush=True)
        self.kill()
        self.start()
        return True

    def freeze(self, frozen):
        self.process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def close(self):
        for worker in self.workers:
            worker.close()
        if self in SERVERS:
            SERVERS.remove(self)
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def worker(self, queue, namespace='default', codec=False):
        worker = Worker(self, queue, namespace, ['codec'] if codec else [])
        self.workers.append(worker)
        return worker

    def ask(self, what, *words, namespace='default'):
        # What changes nothing may be asked again: a busy machine may take longer than the SDK waits.
        for _ in range(START_TRIES if what in READS else 1):
            told, problem = ASKER.ask(self.address, namespace, what, *words)
            if problem == '':
                return told
        raise AssertionError(problem)

    def problem(self, what='ready', *words, namespace='default'):
        """What the service says instead of an answer; '' when it answers."""
        return ASKER.ask(self.address, namespace, what, *words)[1]

    def runs(self, namespace='default'):
        return [json.loads(line) for line in self.ask('runs', namespace=namespace).splitlines()]

    def roots(self, id):
        """How many chains of runs the execution's workflow has: runs that no other run went on as."""
        return int(self.ask('roots', 'execution-' + id))

    def check_one_chain_each(self, ids, namespace='default'):
        """By the server's own list: each execution has exactly one run, whatever its workflow id is. (Of workflows with
        several: roots().)"""
        wanted = set(ids)

        def listed():
            found = {}
            for run in self.runs(namespace):
                if run['execution'] in wanted:
                    found.setdefault(run['execution'], set()).add((run['id'], run['run']))
            return found if set(found) == wanted else None
        found = wait_for('every execution in the list', listed)
        several = {id: runs for id, runs in found.items() if len(runs) != 1}
        assert not several, f'more than one run: {several}'


# Of PlainClient: prints the time of each start that succeeds, beside what the SDK itself has to say. Four tries a second,
# each on a connection of its own, so that none waits for one that is half open, and each with the time that weir gives a
# start.
CLIENT = '''
import asyncio, sys, time
from datetime import timedelta
from temporalio.client import Client
async def start():
    try:
        client = await asyncio.wait_for(Client.connect(sys.argv[1]), 1)
        await client.start_workflow("Noop", {}, id=f"plain-{time.time()}", task_queue="nobody",
                                    rpc_timeout=timedelta(seconds=10))
        print("started", time.time(), flush=True)
    except Exception:
        pass
async def main():
    tries = set()
    while True:
        tries.add(asyncio.create_task(start()))
        await asyncio.sleep(0.25)
        tries = {task for task in tries if not task.done()}
asyncio.run(main())
'''


class PlainClient:
    """A client of the official SDK that tries to start a workflow all the time: when does the service take starts again?"""

    def __init__(self, address):
        self.process = subprocess.Popen([os.path.join(FOLDER, 'venv', 'bin', 'python'), '-c', CLIENT, address],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.seen = b''

    def first_after(self, moment):
        """The time of its first success after that of `moment`."""
        while True:
            for line in self.seen.split(b'\n')[:-1]:
                words = line.split()
                if len(words) == 2 and words[0] == b'started' and float(words[1]) > moment:
                    return float(words[1])
            told, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
            assert told, f'no plain start in {START_SECONDS} s'
            self.seen += os.read(self.process.stdout.fileno(), 65536)

    def close(self):
        self.process.kill()
        self.process.wait()


class Worker:
    """A worker with the official SDK. It writes down each run that it begins."""

    def __init__(self, server, queue, namespace, more):
        self.records = os.path.join(server.folder, f'records-{queue}-{namespace}')
        with open(self.records, 'a'):
            pass  # there from the beginning, for who looks before the first run
        self.log = os.path.join(server.folder, 'worker-log')
        # On a busy machine its first connection may take longer than the SDK waits.
        for _ in range(START_TRIES):
            with open(self.log, 'a') as log:
                self.process = subprocess.Popen([os.path.join(FOLDER, 'venv', 'bin', 'python'),
                                                 os.path.join(HERE, 'temporal_worker.py'), server.address, namespace, queue,
                                                 self.records, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                stderr=log, text=True)
            if self.process.stdout.readline() == 'ready\n':
                return
            self.close()
        with open(self.log) as log:
            raise AssertionError('the worker did not come up\n' + log.read()[-2000:])

    def runs_of(self, id):
        return self.runs_of_workflow('execution-' + id)

    def runs_of_workflow(self, workflow_id):
        with open(self.records) as file:
            return {run for workflow, run in (line.split() for line in file) if workflow == workflow_id}

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
