"""The private PostgreSQL server that weir and the other queues are measured on: durable defaults, on the disk that is
measured, reached by a Unix socket in its own folder, stopped and removed at the end.

As root the server runs as the user postgres. If this program is killed, the kernel sends SIGQUIT to the server. The
functions that find a server and change the user are those of the tests (tests/end_to_end/postgres_server.py).
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tests/end_to_end'))
from ports import free_port  # noqa: E402
from postgres_server import INITDB_WORDS, become_another_user, client_program, find_programs  # noqa: E402

USER = 'weir'
START_SECONDS = 60
# The memory of a small server; everything that makes a commit durable keeps its default.
SETTINGS = 'shared_buffers = 1GB\nmax_wal_size = 4GB\nmax_connections = 200\n'
SHOWN_SETTINGS = ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'shared_buffers', 'max_wal_size',
                  'autovacuum')


class ServerError(Exception):
    """The text names the program that failed and its output."""


class Server:
    def __init__(self, parent, settings=SETTINGS):
        """`parent`: a folder on the disk to be measured, which the user postgres may enter."""
        try:
            self.programs = find_programs()
        except AssertionError as error:
            raise ServerError(f'{error}') from error
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix='weir-peers-', dir=parent)
        self.process = None
        try:
            if os.geteuid() == 0:
                shutil.chown(self.folder, 'postgres')
            self._run('initdb', '-D', self._path('data'), '-U', USER, *INITDB_WORDS)
            with open(self._path('data/postgresql.conf'), 'a') as file:
                file.write(f"\nport = {self.port}\nunix_socket_directories = '{self.folder}'\nlisten_addresses = ''\n"
                           f'log_min_messages = warning\n{settings}')
            self.process = self._spawn('postgres', '-D', self._path('data'))
            self._await_start()
        except BaseException:
            self.close()
            raise

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _spawn(self, program, *words):
        with open(self._path('log'), 'ab') as log:
            return subprocess.Popen([os.path.join(self.programs, program), *words], cwd=self.folder, stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, env={'PATH': '/usr/bin:/bin', 'LC_ALL': 'C'},
                                    start_new_session=True, preexec_fn=become_another_user)

    def _run(self, program, *words):
        if self._spawn(program, *words).wait() != 0:
            raise ServerError(f'{program} failed:\n{self.log()}')

    def _await_start(self):
        deadline = time.monotonic() + START_SECONDS
        words = [client_program('pg_isready'), '-q', '-h', self.folder, '-p', str(self.port), '-U', USER, '-d', 'postgres']
        while subprocess.run(words, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() >= deadline:
                raise ServerError(f'the server does not start:\n{self.log()}')
            time.sleep(0.05)

    def log(self):
        try:
            with open(self._path('log'), errors='replace') as log:
                return log.read()
        except OSError:
            return ''

    def url(self, database):
        return f'postgres://{USER}@/{database}?host={self.folder}&port={self.port}'

    def sql(self, *statements, database='postgres'):
        """The rows of all statements as lines of text. Each statement is a transaction of its own."""
        words = [word for statement in statements for word in ('-c', statement)]
        answer = subprocess.run([client_program('psql'), '-qXAt', '-v', 'ON_ERROR_STOP=1', '-h', self.folder, '-p',
                                 str(self.port), '-U', USER, '-d', database, *words], capture_output=True, text=True,
                                check=False)
        if answer.returncode != 0:
            raise ServerError(f'psql: {answer.stderr.strip()}')
        return answer.stdout.strip()

    def create(self, database):
        self.sql(f'CREATE DATABASE {database}')
        return self.url(database)

    def drop(self, database):
        self.sql(f'DROP DATABASE IF EXISTS {database} WITH (FORCE)')

    def begin_fill(self):
        """Until end_fill() a commit need not reach the disk."""
        self._set_fsync('off')

    def end_fill(self, database):
        """Returns when everything is on the disk, vacuumed and analysed."""
        self._set_fsync('on')
        self.sql('VACUUM ANALYZE', database=database)
        os.sync()
        self.sql('CHECKPOINT')

    def _set_fsync(self, wanted):
        self.sql('ALTER SYSTEM RESET fsync' if wanted == 'on' else 'ALTER SYSTEM SET fsync = off',
                 'SELECT pg_reload_conf()')
        deadline = time.monotonic() + START_SECONDS
        while self.sql('SHOW fsync') != wanted:
            if time.monotonic() >= deadline:
                raise ServerError(f'fsync is not {wanted}')
            time.sleep(0.05)

    def describe(self):
        """Name -> value, as the running server reports them."""
        return {'version': self.sql('SHOW server_version'),
                **{name: self.sql(f'SHOW {name}') for name in SHOWN_SETTINGS}}

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
