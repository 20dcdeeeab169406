"""A gate before a real Temporal service: HAProxy, which ends TLS, looks at certificates and keys, and speaks HTTP/2 without
TLS to the service. It has three ports: TLS alone, TLS with a client's certificate, and TLS with a key in each call."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile

from ports import free_port
from waiting import wait_for

DAY = 86400
BINARY = shutil.which('haproxy') or '/usr/sbin/haproxy'

CONFIG = '''\
global
    log stderr local0 err
defaults
    mode http
    timeout connect 5s
    timeout client 120s
    timeout server 120s
frontend plain_tls
    bind 127.0.0.1:{tls} ssl crt {server} alpn h2
    default_backend service
frontend mutual_tls
    bind 127.0.0.1:{mutual} ssl crt {server} alpn h2 ca-file {clients} verify required
    default_backend service
frontend with_key
    bind 127.0.0.1:{key} ssl crt {server} alpn h2
    http-request return status 401 unless {{ req.hdr(authorization) -m str "Bearer {api_key}" }}
    default_backend service
backend service
    server temporal 127.0.0.1:{service} proto h2
'''


class Gate:
    def __init__(self, service_port):
        self.folder = tempfile.mkdtemp(prefix='weir-gate-')
        self.service_port, self.process = service_port, None
        self.ports = {name: free_port() for name in ('tls', 'mutual', 'key')}
        self.certificate('authority', '')
        self.certificate('server', 'authority', 'DNS:temporal.test,IP:127.0.0.1')
        self.certificate('client', 'authority', 'DNS:weir')
        self.wants = {'server': 'server', 'clients': 'authority', 'api_key': 'first-key'}
        atexit.register(self.close)

    def path(self, name):
        return os.path.join(self.folder, name)

    def address(self, name):
        return f'127.0.0.1:{self.ports[name]}'

    def certificate(self, name, signer, alternative='', valid_from=-DAY, valid_until=DAY):
        subprocess.run([os.environ['WEIR_MAKE_CERTIFICATE'], self.folder, name, signer, alternative, str(valid_from),
                        str(valid_until)], check=True)

    def write(self, name, text):
        """In one step, as whoever replaces secrets should."""
        with open(self.path(name) + '.new', 'w') as file:
            file.write(text)
        os.replace(self.path(name) + '.new', self.path(name))
        return self.path(name)

    def copy(self, source, name):
        with open(self.path(source)) as file:
            return self.write(name, file.read())

    def start(self, **wants):
        """Starts it; or ends the one that runs, with its connections, and starts one that wants other things."""
        self.stop()
        self.wants.update(wants)
        with open(self.path('both.pem'), 'w') as both:
            for end in ('.pem', '.key'):
                with open(self.path(self.wants['server'] + end)) as part:
                    both.write(part.read())
        config = CONFIG.format(**self.ports, server=self.path('both.pem'), service=self.service_port,
                               clients=self.path(self.wants['clients'] + '.pem'), api_key=self.wants['api_key'])
        self.process = subprocess.Popen([BINARY, '-db', '-q', '-f', self.write('haproxy.cfg', config)], cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for('the gate', self.listens)

    def listens(self):
        assert self.process.poll() is None, f'the gate ended with {self.process.returncode}'
        with open(f'/proc/{self.process.pid}/net/tcp') as sockets:
            ports = {line.split()[1].split(':')[1] for line in sockets if line.split()[3] == '0A'}
        return all(f'{port:04X}' in ports for port in self.ports.values())

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
