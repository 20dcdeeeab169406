#!/usr/bin/env python3
"""How soon work resumes after an outage of a real Temporal service: the time from the service's return to the first start
through weir that is on record, beside that of a plain client of the official SDK that tries all the time. The service is
killed and restarted, frozen, and cut off by a network that refuses or swallows. The times are told, not judged; what bounds
them is tested on a virtual clock (unit/engine/temporal: outage, grpc/faults).

usage: temporal_resume.py BINARY [SECONDS [ROUNDS]]      SECONDS: how long each outage lasts (20)
"""

import os
import shutil
import sys
import tempfile
import time

from harness import Weir
from postgres_server import PostgresServer
from temporal_parts import FOLDER, PlainClient, Server
from temporal_proxy import Proxy
from temporal_scene import enqueue_many, prepare, serve
from waiting import wait_for


class Scene:
    def __init__(self, binary):
        self.folder = tempfile.mkdtemp(prefix='weir-resume-')
        os.mkdir(os.path.join(self.folder, 'home'))
        self.weir = Weir(os.path.abspath(binary), self.folder)
        self.postgres = PostgresServer()
        self.database = self.postgres.database()
        self.weir.environment['WEIR_STORE'] = self.postgres.url(database=self.database)
        self.server = Server()
        self.proxy = Proxy(self.server.port, 1)
        prepare(self.weir, self.server, queue='nobody', address=self.proxy.address)
        self.weir.good('workspace', 'set', 'acme', '--max-concurrent', '900', '-q')
        serve(self.weir)
        self.dispatched = 0
        self.start_some(5)

    def first_after(self, moment):
        found = self.postgres.sql(f'''SELECT min(dispatched_at) FROM weir.workflow_execution_queue
            WHERE dispatched_at > {int(moment * 1e6)}''', self.database)
        return int(found) / 1e6 if found else None

    def start_some(self, count):
        self.dispatched += count
        enqueue_many(self.weir, count)

        def are_there():
            found = self.postgres.sql('SELECT count(*) FROM weir.workflow_execution_queue WHERE dispatched_at IS NOT NULL',
                                      self.database)
            # One that was frozen while it came up may end of its own accord.
            return int(found) >= self.dispatched or (self.server.mend() and False)
        wait_for('the starts', are_there, 300)

    def measure(self, name, begin, end, seconds):
        """`end` returns the moment from which on the service can be reached."""
        begin()
        time.sleep(1)
        enqueue_many(self.weir, 20)
        self.dispatched += 20
        client = PlainClient(self.proxy.address)
        time.sleep(seconds)
        moment = end()
        plain = client.first_after(moment)
        ours = wait_for('a start', lambda: self.first_after(moment), 300)
        client.close()
        print(f'{name:10} {seconds:3} s: first start through weir after {ours - moment:.2f} s, by a plain client after '
              f'{plain - moment:.2f} s', flush=True)
        self.start_some(5)

    def kill(self):
        self.server.kill()

    def restart(self):
        return self.server.start_and_watch()

    def freeze(self):
        self.server.freeze(True)

    def thaw(self):
        self.server.freeze(False)
        return time.time()

    def refuse(self):
        self.proxy.refuses = True
        self.proxy.cut()

    def accept(self):
        self.proxy.refuses = False
        return time.time()

    def swallow(self):
        self.proxy.half_open()
        self.proxy.swallows = True

    def pass_on(self):
        self.proxy.swallows = False
        return time.time()

    def close(self):
        self.weir.close()
        self.proxy.close()
        self.server.close()
        self.postgres.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def main(binary, seconds='20', rounds='1'):
    if FOLDER is None:
        sys.exit('there is no Temporal server for tests here; get it with: tools/install_temporal.sh')
    scene = Scene(binary)
    try:
        for _ in range(int(rounds)):
            scene.measure('killed', scene.kill, scene.restart, int(seconds))
            scene.measure('frozen', scene.freeze, scene.thaw, int(seconds))
            scene.measure('refused', scene.refuse, scene.accept, int(seconds))
            scene.measure('swallowed', scene.swallow, scene.pass_on, int(seconds))
    finally:
        scene.close()


if __name__ == '__main__':
    main(*sys.argv[1:])
