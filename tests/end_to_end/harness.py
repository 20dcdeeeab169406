"""Runs the built binary as people and scripts do, and says what came out; a tiny test runner that speaks TAP.

A test is a function whose name is its claim; it gets a Weir, a fresh folder with the binary in it, and asserts. No test
reads the user's own settings: HOME and the environment are made anew.
"""

import fcntl
import inspect
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import termios
import time
import traceback

from waiting import SECONDS_MOST, wait_for

UUID = re.compile(r'^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$')
BUSY = re.compile('database is locked|cannot open the store .* in time')
TIMEOUT_SECONDS = 100
NODE_LEASE = '20s'  # a node that stands still for ten seconds on a busy machine keeps its executions
LONG_CAMPAIGNS = 'WEIR_TEST_LONG' in os.environ  # `./dev check campaigns`


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def __repr__(self):
        return f'exit {self.code}\nstdout: {self.out[:2000]}\nstderr: {self.err[:2000]}'

    def json(self):
        return json.loads(self.out)

    def jsonl(self):
        return [json.loads(line) for line in self.out.splitlines()]


class Weir:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.environment = {'PATH': os.environ.get('PATH', '/usr/bin:/bin'), 'HOME': os.path.join(folder, 'home'),
                            'LANG': 'C.UTF-8', 'USER': 'tester'}
        # Sanitizers report through these.
        for name in ('ASAN_OPTIONS', 'UBSAN_OPTIONS', 'TSAN_OPTIONS', 'LSAN_OPTIONS'):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        self.background = []
        self.user = None  # whose rights the programs have; None: ours

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        mode = 'wb' if isinstance(content, bytes) else 'w'
        with open(self.path(name), mode) as file:
            file.write(content)
        return self.path(name)

    def environment_of(self, words, env):
        """Of a command with these words. A node has a long lease when its test names none."""
        environment = {**self.environment, **(env or {})}
        if words[:1] in (('serve',), ('dev',)) and not self.names_lease():
            environment.setdefault('WEIR_NODE_LEASE', NODE_LEASE)
        return environment

    def names_lease(self):
        """Whether ./weir.yaml does, over which the environment has precedence."""
        try:
            with open(self.path('weir.yaml'), encoding='utf-8', errors='replace') as file:
                return 'node.lease' in file.read()
        except OSError:
            return False

    def start(self, *words, env=None, limit_file=None, terminal=None, **pipes):
        """`terminal`: one end of it becomes its controlling terminal and its stdin. Without it and a limit the program is
        started without a copy of this one, which is quicker."""
        def prepare():
            if limit_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit_file, limit_file))
            if terminal is not None:
                os.setsid()
                fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        if terminal is not None:
            pipes['stdin'] = terminal
        pipes.setdefault('stdin', subprocess.DEVNULL)
        if self.user is not None:
            pipes.update(user=self.user, group=self.user, extra_groups=[])
        pipes.setdefault('stdout', subprocess.PIPE)
        pipes.setdefault('stderr', subprocess.PIPE)
        return subprocess.Popen([self.binary, *words], cwd=self.folder, env=self.environment_of(words, env),
                                preexec_fn=None if limit_file is None and terminal is None else prepare, **pipes)

    def run(self, *words, code=None, may_be_busy=False, **options):
        """Runs to the end. `code`: what it must exit with. A slow disk, or a process that stands still in a commit, can
        lock a SQLite file for longer than the deadline of a command, and a command that stands still itself does not open
        its store in time: such a command has changed nothing and is repeated, but with `may_be_busy`."""
        deadline = time.monotonic() + SECONDS_MOST
        while True:
            result = self.run_once(*words, **options)
            is_busy = result.code == 6 and result.out == '' and re.search(BUSY, result.err)
            if not is_busy or may_be_busy or time.monotonic() >= deadline:
                break
        assert code in (None, result.code), f'weir {" ".join(words)}\n{result!r}'
        return result

    def run_once(self, *words, stdin=None, env=None, limit_file=None):
        began = time.monotonic()
        if isinstance(stdin, str):
            stdin = stdin.encode()
        process = self.start(*words, env=env, limit_file=limit_file,
                             stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # nobody else knows of it
            process.communicate()
            raise
        return Result(process.returncode, out.decode('utf-8', 'surrogateescape'), err.decode('utf-8', 'surrogateescape'),
                      time.monotonic() - began)

    def soon(self, *words, seconds=3, **options):
        """Runs to the end, which must come within so many seconds one time of five: a busy machine may stop any of them."""
        for _ in range(5):
            result = self.run(*words, **options)
            if result.seconds < seconds:
                return result
        raise AssertionError(f'weir {" ".join(words)} never ended within {seconds} s\n{result!r}')

    def good(self, *words, **options):
        return self.run(*words, code=0, **options)

    def items(self, *words):
        return self.good(*words, '--json').json()['items']

    def terminal(self, *words, answer=None, env=None, size=None):
        """Runs on a terminal, of `size` (lines, columns) when given; types `answer` once a question stands there.
        Everything that was shown is in `out`."""
        environment = self.environment_of(words, env)
        pid, master = pty.fork()
        if pid == 0:
            if size is not None:
                termios.tcsetwinsize(0, size)
            os.chdir(self.folder)
            os.execve(self.binary, [self.binary, *words], {'TERM': 'xterm', **environment})
        shown, began = b'', time.monotonic()
        while time.monotonic() - began < TIMEOUT_SECONDS:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    piece = os.read(master, 65536)
                except OSError:
                    break
                if not piece:
                    break
                shown += piece
                if answer is not None and shown.rstrip().endswith(b':'):
                    os.write(master, answer.encode() + b'\n')
                    answer = None
        _, status = os.waitpid(pid, 0)
        os.close(master)
        return Result(os.waitstatus_to_exitcode(status), shown.decode(), '', time.monotonic() - began)

    def database(self, name='weir.db'):
        return sqlite3.connect(self.path(name), isolation_level=None, timeout=SECONDS_MOST)

    # --- what many tests begin with ---

    def make_store(self):
        self.good('store', 'init', '-q')
        self.good('workspace', 'set', 'acme', '--plan', 'pro', '-q')
        self.good('workspace', 'set', 'tiny', '-q')
        self.write('hello.yaml', 'name: hello\nsteps:\n  greet:\n    exec: [echo, hello]\n')
        self.good('workflow', 'apply', 'hello.yaml', '-q')

    def make_groups(self, *names):
        """Executor groups that no node serves, made as users do: by workflows that name them."""
        for place, name in enumerate(names):
            self.write('group.yaml', json.dumps({'name': f'group-{place}', 'executor_group': name,
                                                 'steps': {'greet': {'exec': ['echo', 'hello']}}}))
            self.good('workflow', 'apply', 'group.yaml', '-q')

    def enqueue(self, *words):
        return self.good('enqueue', '-q', *(words or ('-w', 'acme', 'hello'))).out.strip()

    def enqueue_many(self, count, workspace='acme'):
        line = json.dumps({'workspace': workspace, 'workflow': 'hello'}) + '\n'
        return self.good('enqueue', '-', '-q', stdin=line * count).out.split()

    def release(self, execution):
        """A node may have begun to try it again by itself."""
        released = self.run('release', execution, '-q')
        assert released.code == 0 or 'illegal_state' in released.err, released

    def preload(self, library):
        """The environment of a program that has this library before its own."""
        environment = {'LD_PRELOAD': library}
        if 'ASAN_OPTIONS' in self.environment:  # it ends a program before whose own library another one is loaded
            environment['ASAN_OPTIONS'] = self.environment['ASAN_OPTIONS'] + ':verify_asan_link_order=0'
        return environment

    def show(self, execution):
        return self.good('show', execution, '--json').json()

    def ended(self, execution):
        """What `show` says of it, once it has ended."""
        def look():
            shown = self.show(execution)
            return shown if shown['status'] in ('COMPLETED', 'FAILED', 'CANCELLED') else None
        return wait_for(lambda: f'the end of {self.show(execution)}', look)

    # --- processes that stay ---

    def spawn(self, *words, **options):
        process = self.start(*words, **options)
        self.background.append(process)
        return process

    def spawn_with_failpoint(self, failpoint, *words):
        """The process of the command, and the one that meets the failpoint when the command changes the store."""
        process = self.spawn(*words, env={'WEIR_FAILPOINT': failpoint})
        return process, process

    def close(self):
        for process in self.background:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None and not pipe.closed:
                    try:
                        pipe.close()
                    except OSError:
                        pass  # what was still to be written to a dead process


class ThroughServer(Weir):
    """Commands reach the store ./weir.db by a server's REST API, once the store is there. Those that need the store itself,
    or name a store, do not."""

    DIRECT = {('serve',), ('dev',), ('demo',), ('worker',), ('store', 'init'), ('store', 'migrate'), ('store', 'backup'),
              ('config', 'show'), ('config', 'check')}

    def __init__(self, binary, folder):
        super().__init__(binary, folder)
        self.url = None

    def environment_of(self, words, env):
        environment = super().environment_of(words, env)
        is_direct = any(words[:len(verb)] == verb for verb in self.DIRECT) or 'WEIR_STORE' in (env or {})
        if not is_direct and os.path.exists(self.path('weir.db')):
            environment.setdefault('WEIR_STORE', self.server())
        return environment

    def spawn_with_failpoint(self, failpoint, *words):
        self.url = None
        self.server(failpoint=failpoint)
        server = self.background[-1]
        return self.spawn(*words), server

    def server(self, store=None, failpoint=''):
        """Its URL. It ends with its stdin, at the latest when the test ends."""
        if self.url is None:
            store = store or f'sqlite:{self.path("weir.db")}'
            process = subprocess.Popen([os.environ['WEIR_SERVER_PROGRAM'], store, '127.0.0.1:0'],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env={**self.environment, 'WEIR_FAILPOINT': failpoint})
            self.background.append(process)
            line = process.stdout.readline().decode()
            assert line.startswith('http at '), line
            self.url = 'http://' + line.split()[-1]
        return self.url


def catches(process, number):
    """The program has put its own handler in the place of the default: the signal will not just kill it."""
    with open(f'/proc/{process.pid}/status') as file:
        caught = next((line for line in file if line.startswith('SigCgt:')), 'SigCgt: 0')
    return int(caught.split()[1], 16) >> (number - 1) & 1 == 1


def assert_error(result, code, status, *words):
    """One line `weir: MESSAGE (STATUS)`, perhaps a hint; all words are in what was said."""
    assert result.code == code, repr(result)
    lines = result.err.splitlines()
    line = next(line for line in lines if line.startswith('weir: '))
    assert line.endswith(f'({status})'), repr(result)
    assert len([line for line in lines if not line.startswith(('weir: ', 'hint: '))]) == 0, repr(result)
    for word in words:
        assert word in result.err, f'{word!r} is missing\n{result!r}'


def run_tests(module, binary, prepare=None, needs_store=(), kind=Weir):
    """Runs all functions of the module whose names begin with a lower-case letter and that take `weir`. `prepare` is called
    with each test's Weir before it. `needs_store`: those that do not run with --server, because they concern the store's
    file or a command that works on it alone."""
    kind = ThroughServer if '--server' in sys.argv else kind
    tests = [function for name, function in vars(module).items()
             if inspect.isfunction(function) and function.__module__ == module.__name__ and
             function.__code__.co_varnames[:1] == ('weir',) and not name.startswith('_')]
    wanted = [name for name in sys.argv[2:] if not name.startswith('--')]
    tests = [test for test in tests if not wanted or test.__name__ in wanted]
    if '--server' in sys.argv:
        assert {test.__name__ for test in tests} & set(needs_store) == set(needs_store) or wanted, needs_store
        tests = [test for test in tests if test.__name__ not in needs_store]
    print(f'1..{len(tests)}', flush=True)
    failed = 0
    for number, test in enumerate(tests, 1):
        folder = tempfile.mkdtemp(prefix='weir-test-')
        os.mkdir(os.path.join(folder, 'home'))
        weir = kind(os.path.abspath(binary), folder)
        try:
            if prepare is not None:
                prepare(weir)
            test(weir)
            print(f'ok {number} - {test.__name__}', flush=True)
        except Exception:
            failed += 1
            print(f'not ok {number} - {test.__name__}')
            print(''.join('# ' + line + '\n' for line in traceback.format_exc().splitlines()), end='', flush=True)
        finally:
            weir.close()
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0
