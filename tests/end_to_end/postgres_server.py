"""A PostgreSQL server of a test program's own, and PgBouncer in front of it: in a folder of its own, gone at the end.

The folder is in memory where there is room: a disk takes many times as long to make the thousand files of a cluster and the
three hundred of each database. Tests of what a server keeps when it falls ask for the disk.
"""

import atexit
import ctypes
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ports import free_port
from waiting import SHORT, process_state, wait_for

PR_SET_PDEATHSIG = 1
START_SECONDS = 60
MEMORY, DISK = '/dev/shm', '/tmp'
MEMORY_LEAST_BYTES = 2 << 30  # other servers work beside this one
INITDB_WORDS = ('-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync')


def become_another_user(death=signal.SIGQUIT):
    """The server refuses to run as root. It dies with the test program, by the signal `death`."""
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam('postgres')
        except KeyError:
            user = pwd.getpwnam('nobody')
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death)


def find_programs():
    """The folder with initdb and postgres: what WEIR_POSTGRES_PROGRAMS names, or else the newest of the Debian packages."""
    named = os.environ.get('WEIR_POSTGRES_PROGRAMS')
    if named is not None:
        assert os.access(os.path.join(named, 'initdb'), os.X_OK), f'WEIR_POSTGRES_PROGRAMS: there is no initdb in {named}'
        return named
    found = sorted(glob.glob('/usr/lib/postgresql/*/bin'), key=lambda path: int(path.split('/')[-2]))
    assert found, 'there is no PostgreSQL server: install the package postgresql (./dev test does)'
    return found[-1]


def client_program(name):
    """The installed one, whatever the server: not every set of its programs has the client's. Not by the name in the path,
    which is Debian's wrapper: its Perl takes longer than what it starts."""
    found = sorted(glob.glob(f'/usr/lib/postgresql/*/bin/{name}'), key=lambda path: int(path.split('/')[-3]))
    return found[-1] if found else name


def _runs(pid):
    return process_state(pid) not in (None, 'Z')


def _folder_for_files(on_disk):
    if on_disk or not os.access(MEMORY, os.W_OK | os.X_OK):
        return DISK
    facts = os.statvfs(MEMORY)
    return MEMORY if facts.f_bavail * facts.f_frsize >= MEMORY_LEAST_BYTES else DISK


def _template(programs, owner):
    """A cluster that initdb has made for this run of the tests (postgres_template.py), by these programs; or None."""
    folder = os.environ.get('WEIR_POSTGRES_TEMPLATE')
    if not folder:
        return None
    with open(os.path.join(folder, 'programs')) as file:
        return os.path.join(folder, owner) if file.read() == programs else None


class PostgresServer:
    def __init__(self, settings='', initdb=(), environment=None, primary=None, on_disk=False):
        """`initdb`: more words for it; `environment`: more of it for the server; `primary`: be a standby of this one;
        `on_disk`: what is made durable is on a disk even where memory has room."""
        self.programs, self.port, self.process = find_programs(), free_port(), None
        self.pools = []
        self.environment = environment or {}
        parent = _folder_for_files(on_disk)
        self.folder = tempfile.mkdtemp(prefix='weir-pg-', dir=parent)
        if os.geteuid() == 0:
            shutil.chown(self.folder, 'postgres')
        atexit.register(self.close)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a test that took too long cleans up as well
        template = None if initdb else _template(self.programs, 'owner')
        if primary is None and template is not None:
            self.copy(template)
        elif primary is None:
            self.call('initdb', '-D', self.path('data'), '-U', 'owner', *INITDB_WORDS, *initdb)
        else:
            self.call('pg_basebackup', '-D', self.path('data'), '-h', primary.folder, '-p', str(primary.port),
                      '-U', 'owner', '--write-recovery-conf', '--checkpoint=fast', '--no-sync')
        with open(self.path('data/PG_VERSION')) as file:
            # After a crash the server makes its whole folder durable, file by file. All of its tests' databases in one call
            # are as durable, within a second and not within a minute.
            settings += '\nrecovery_init_sync_method = syncfs' if int(file.read()) >= 14 else ''
        if parent == MEMORY:
            settings = f'max_wal_size = 256MB\n{settings}'
        with open(self.path('data/postgresql.conf'), 'a') as file:
            file.write(f"\nport = {self.port}\nunix_socket_directories = '{self.folder}'\n"
                       f"listen_addresses = '127.0.0.1'\nlog_min_messages = warning\n{settings}\n")
        self.start()

    def path(self, name):
        return os.path.join(self.folder, name)

    def _spawn(self, *words, death=signal.SIGQUIT):
        with open(self.path('log'), 'ab') as log:
            return subprocess.Popen(words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    env={'PATH': '/usr/bin:/bin', 'LC_ALL': 'C', **self.environment},
                                    start_new_session=True, preexec_fn=lambda: become_another_user(death))

    def log(self):
        with open(self.path('log'), errors='replace') as log:
            return log.read()

    def call(self, program, *words):
        assert self._spawn(os.path.join(self.programs, program), *words).wait() == 0, self.log()

    def copy(self, template):
        """By the server's user, so that all of it is his; what was sparse (the log) stays so."""
        assert self._spawn('/bin/cp', '-r', '--preserve=mode', template, self.path('data')).wait() == 0, self.log()

    def _await(self, process, port):
        words = [client_program('pg_isready'), '-q', '-h', '127.0.0.1', '-p', str(port), '-U', 'owner', '-d', 'postgres']

        def answers():
            assert process.poll() is None, self.log()
            return subprocess.run(words, check=False).returncode == 0
        wait_for(lambda: f'the start ({self.log()})', answers, START_SECONDS)

    def start(self):
        self.process = self._spawn(os.path.join(self.programs, 'postgres'), '-D', self.path('data'))
        self._await(self.process, self.port)

    def stop(self, number=signal.SIGINT):
        children = self._children()
        self.process.send_signal(number)
        self.process.wait(START_SECONDS)
        # Those of a killed one end by themselves, and before that no new one starts.
        wait_for('the end of its processes', lambda: not any(map(_runs, children)), START_SECONDS, pause=SHORT)

    def pool(self, more=''):
        """Starts PgBouncer in transaction mode; its port."""
        port = free_port()
        with open(self.path('users.txt'), 'w') as file:
            file.write('"owner" ""\n"node" ""\n')
        ini = self.path(f'pgbouncer-{port}.ini')
        with open(ini, 'w') as file:
            file.write(f'[databases]\n* = host={self.folder} port={self.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n'
                       f'listen_port = {port}\nunix_socket_dir =\nauth_type = trust\n'
                       f'auth_file = {self.path("users.txt")}\npool_mode = transaction\n{more}\n')
        self.pools.append(self._spawn('/usr/sbin/pgbouncer', ini, death=signal.SIGKILL))  # it ignores SIGQUIT
        self._await(self.pools[-1], port)
        return port

    def _children(self):
        listed = subprocess.run(['ps', '-o', 'pid=', '--ppid', str(self.process.pid)], capture_output=True, text=True,
                                check=False)
        return [int(pid) for pid in listed.stdout.split()]

    def signal_all(self, number):
        """To the postmaster and all its children (SIGSTOP, SIGCONT)."""
        for pid in [self.process.pid, *self._children()]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def url(self, database='postgres', user='owner', password='', port=None, more=''):
        secret = f':{password}' if password else ''
        return f'postgres://{user}{secret}@127.0.0.1:{port or self.port}/{database}{more}'

    def sql(self, text, database='postgres', user='owner'):
        """Rows as lines of text, columns with |."""
        answer = subprocess.run([client_program('psql'), '-qXAt', '-v', 'ON_ERROR_STOP=1', '-h', self.folder, '-p',
                                 str(self.port), '-U', user, '-d', database, '-c', text], capture_output=True, text=True,
                                check=False)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    def database(self):
        """A fresh database for one test."""
        name = f'test_{time.monotonic_ns()}'
        self.sql(f'CREATE DATABASE {name}')
        return name

    def close(self):
        for pool in self.pools:
            pool.kill()
            pool.wait()
        try:
            if self.process is not None and self.process.poll() is None:
                self.signal_all(signal.SIGCONT)
                self.stop(signal.SIGQUIT)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
