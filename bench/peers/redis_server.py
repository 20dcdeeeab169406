"""The private Redis server of the queues on Redis, with an append-only file. It has two settings. With `always` every write
is on the disk before it is answered, as in all other queues of the comparison. `everysec` is the default of Redis: a power
cut loses the last second. Reached by a Unix socket in a folder of its own, stopped and removed at the end. If this program
is killed, the kernel ends the server.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

START_SECONDS = 30
STOP_SECONDS = 30
DURABLE = 'always'
PR_SET_PDEATHSIG = 1


class RedisError(Exception):
    """The text says what is missing, or what the server answered."""


class RedisServer:
    def __init__(self, parent):
        """`parent`: a folder on the disk to be measured."""
        program = shutil.which('redis-server')
        if program is None:
            raise RedisError('`redis-server` is not installed; Celery and BullMQ need it (Debian: the package '
                             'redis-server)')
        self.folder = tempfile.mkdtemp(prefix='weir-redis-', dir=parent)
        self.socket = os.path.join(self.folder, 'socket')
        self.url = f'redis+socket://{self.socket}'
        words = [program, '--port', '0', '--unixsocket', self.socket, '--dir', self.folder, '--save', '', '--appendonly',
                 'yes', '--appendfsync', DURABLE, '--daemonize', 'no', '--loglevel', 'warning']
        self.log = open(os.path.join(self.folder, 'log'), 'wb')
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        try:
            self._await_start()
        except BaseException:
            self.close()
            raise

    def _await_start(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if self.ask('PING') == 'PONG':
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() >= deadline:
                with open(self.log.name, errors='replace') as log:
                    raise RedisError(f'redis-server does not start:\n{log.read()[-1000:]}')
            time.sleep(0.02)

    def ask(self, *words):
        """One command; the line of a simple answer. Other answers are errors, because no command here has them."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(START_SECONDS)
            connection.connect(self.socket)
            connection.sendall(f'*{len(words)}\r\n'.encode() + b''.join(b'$%d\r\n%s\r\n' % (len(word), word.encode())
                                                                       for word in words))
            answer = b''
            while not answer.endswith(b'\r\n'):
                part = connection.recv(4096)
                if not part:
                    break
                answer += part
        if not answer.startswith(b'+'):
            raise RedisError(f'redis-server answered {answer.decode(errors="replace").strip()} to {" ".join(words)}')
        return answer[1:].decode().strip()

    def begin_fill(self):
        """Until end_fill() a write need not reach the disk."""
        self.ask('FLUSHALL')
        self.ask('CONFIG', 'SET', 'appendfsync', 'no')

    def end_fill(self, fsync):
        """`fsync`: always or everysec."""
        self.ask('CONFIG', 'SET', 'appendfsync', fsync)
        os.sync()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
