#!/usr/bin/env python3
"""How many calls a node makes to a real Temporal service: for each of some lone executions, and in a minute with many open
workflows. The server itself counts them (its metric service_requests); nobody else calls it meanwhile but its worker, whose
calls are others. The numbers are told, not judged; what bounds them is tested on a virtual clock
(unit/engine/temporal/long_polls).

usage: temporal_calls.py BINARY [OPEN [ROUNDS]]      OPEN: workflows that are open at once (2000)
"""

import collections
import os
import re
import shutil
import sys
import tempfile
import time
import urllib.request

from harness import Weir
from ports import free_port
from temporal_parts import FOLDER, Server
from temporal_scene import ended, enqueue, enqueue_many, prepare, serve
from waiting import wait_for

OF_EXECUTIONS = ('StartWorkflowExecution', 'GetWorkflowExecutionHistory', 'PollWorkflowExecutionHistory',
                 'DescribeWorkflowExecution')
OF_NODES = (*OF_EXECUTIONS, 'ListWorkflowExecutions', 'DescribeNamespace', 'GetSystemInfo', 'ListSearchAttributes')
LONE = 50
LOOK_SECONDS = 60
REPORT_SECONDS = 3  # the server brings its counters up to date once a second
LINE = re.compile(r'service_requests\{([^}]*)\} (\S+)')


class Scene:
    def __init__(self, binary):
        self.folder = tempfile.mkdtemp(prefix='weir-calls-')
        os.mkdir(os.path.join(self.folder, 'home'))
        self.weir = Weir(os.path.abspath(binary), self.folder)
        self.metrics = free_port()
        self.server = Server(words=['--metrics-port', str(self.metrics)])
        self.server.worker('q')
        prepare(self.weir, self.server)
        self.weir.write('kept.yaml', 'name: kept\ntemporal: {workflow_type: Noop, task_queue: nobody}\n')
        self.weir.good('workflow', 'apply', 'kept.yaml', '-q')
        self.weir.good('workspace', 'set', 'acme', '--max-concurrent', '5000', '-q')
        self.weir.environment['WEIR_EXECUTOR_MAX_RUNNING'] = '5000'
        serve(self.weir)
        ended(self.weir, enqueue(self.weir, 'noop'), 'COMPLETED')  # the node and the worker are there

    def calls(self):
        time.sleep(REPORT_SECONDS)
        with urllib.request.urlopen(f'http://127.0.0.1:{self.metrics}/metrics', timeout=60) as answer:
            text = answer.read().decode()
        found = collections.Counter()
        for labels, value in LINE.findall(text):
            of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if of.get('service_name') == 'frontend' and of['operation'] in OF_NODES:
                found[of['operation']] += round(float(value))
        return found

    def lone(self):
        before = self.calls()
        for _ in range(LONE):
            ended(self.weir, enqueue(self.weir, 'noop'), 'COMPLETED')
        made = self.calls() - before
        own = sum(made[name] for name in OF_EXECUTIONS)
        print(f'{LONE} lone executions: {own / LONE:.2f} calls each; all: {dict(made)}', flush=True)

    def open(self, count):
        enqueue_many(self.weir, count, 'kept')

        def are_there():
            return self.weir.good('status', '--json').json()['running'] >= count
        wait_for('the starts', are_there, 1800)
        time.sleep(LOOK_SECONDS)  # what the starts have brought has settled
        self.minute(count)

    def minute(self, count):
        begin, before = time.monotonic(), self.calls()
        time.sleep(LOOK_SECONDS)
        made, seconds = self.calls() - before, time.monotonic() - begin
        minutes = (seconds - REPORT_SECONDS) / 60
        print(f'{count} open: {sum(made.values()) / minutes:.0f} calls a minute: '
              + ', '.join(f'{name} {number / minutes:.0f}' for name, number in made.most_common()), flush=True)

    def close(self):
        self.weir.close()
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def main(binary, count='2000', rounds='3'):
    if FOLDER is None:
        sys.exit('there is no Temporal server for tests here; get it with: tools/install_temporal.sh')
    scene = Scene(binary)
    try:
        for _ in range(int(rounds)):
            scene.lone()
        scene.open(int(count))
        for _ in range(int(rounds) - 1):
            scene.minute(int(count))
    finally:
        scene.close()


if __name__ == '__main__':
    main(*sys.argv[1:])
