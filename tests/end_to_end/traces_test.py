#!/usr/bin/env python3
"""Traces: the context of a request on its way to the steps, and spans in a real OpenTelemetry collector.

usage: traces_test.py BINARY [TEST ...]
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys

from harness import run_tests
from http_client import LONG_LEASE, Listener
from ports import free_port
from waiting import SHORT, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_INSTALLED = 'no OpenTelemetry collector is installed for tests: sh tools/install_otel_collector.sh says what it needs'
TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
CALLER = '00f067aa0ba902b7'
TRACEPARENT = f'00-{TRACE}-{CALLER}-01'
CANARY = 'canary-3f1c'


def _collector_binary():
    installer = os.path.join(ROOT, 'tools', 'install_otel_collector.sh')
    folder = subprocess.run([installer, 'where'], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return os.path.join(folder, 'otelcol')


class Collector:
    """A real collector that writes what it gets to a file."""

    def __init__(self, weir, port=None):
        self.weir, self.port = weir, port or free_port()
        self.file = weir.path('spans.jsonl')
        weir.write('otelcol.yaml', json.dumps({
            'receivers': {'otlp': {'protocols': {'http': {'endpoint': f'127.0.0.1:{self.port}'}}}},
            'exporters': {'file': {'path': self.file}},
            'service': {'telemetry': {'metrics': {'level': 'none'}},
                        'pipelines': {'traces': {'receivers': ['otlp'], 'exporters': ['file']}}}}))
        with open(weir.path('otelcol.log'), 'w') as log:
            self.process = subprocess.Popen([_collector_binary(), '--config', weir.path('otelcol.yaml')],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        weir.background.append(self.process)
        wait_for('the collector', self._is_up, pause=SHORT)

    def _is_up(self):
        assert self.process.poll() is None, open(self.weir.path('otelcol.log')).read()
        with socket.socket() as probe:
            return probe.connect_ex(('127.0.0.1', self.port)) == 0

    @property
    def endpoint(self):
        return f'http://127.0.0.1:{self.port}'

    def spans(self):
        if not os.path.exists(self.file):
            return []
        with open(self.file) as file:
            lines = file.read().split('\n')[:-1]  # the last one may be half written
        return [span for line in lines for resource in json.loads(line)['resourceSpans']
                for scope in resource['scopeSpans'] for span in scope['spans']]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def _attributes(span):
    return {entry['key']: next(iter(entry['value'].values())) for entry in span['attributes']}


def _named(spans, name):
    found = [span for span in spans if span['name'] == name]
    assert len(found) == 1, (name, [span['name'] for span in spans])
    return found[0]


def _await_spans(collector, names):
    """Waits until the collector has a span of each name."""
    def complete():
        spans = collector.spans()
        return spans if {span['name'] for span in spans} >= set(names) else None
    return wait_for(f'spans {names}', complete)


def _publish(weir, name='hello', **steps):
    weir.write(f'{name}.yaml', f'name: {name}\nsteps: {json.dumps(steps)}\n')
    weir.good('workflow', 'apply', f'{name}.yaml', '-q')


def _output(weir, id):
    return json.loads(weir.good('show', id, '--json').out)['steps'][0]['output']


def the_context_of_the_command_line_reaches_the_step(weir):
    weir.make_store()
    _publish(weir, greet={'exec': ['sh', '-c', 'echo "${TRACEPARENT-none}"']})
    weir.spawn('serve', '--allow-exec', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    by_flag = weir.good('enqueue', '-w', 'acme', 'hello', '--traceparent', TRACEPARENT, '--wait', '-q').out.split()[0]
    assert _output(weir, by_flag) == TRACEPARENT
    assert weir.good('show', by_flag, '--json').json()['traceparent'] == TRACEPARENT
    assert TRACEPARENT in weir.good('show', by_flag).out
    other = TRACEPARENT.replace('4bf92f', '5bf92f')
    inherited = weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q', env={'TRACEPARENT': other}).out.split()[0]
    assert _output(weir, inherited) == other
    both = weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q', '--traceparent', TRACEPARENT,
                     env={'TRACEPARENT': other}).out.split()[0]
    assert _output(weir, both) == TRACEPARENT
    none = weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q').out.split()[0]
    assert _output(weir, none) == 'none'
    assert weir.good('show', none, '--json').json()['traceparent'] is None
    line = {'workspace': 'acme', 'workflow': 'hello'}
    lines = [{**line, 'traceparent': TRACEPARENT}, line]
    ids = weir.good('enqueue', '-', '--traceparent', other, stdin='\n'.join(map(json.dumps, lines))).out.split()
    for id, wanted in zip(ids, (TRACEPARENT, other), strict=True):
        weir.good('wait', id)
        assert _output(weir, id) == wanted


def a_context_that_is_none_is_refused_and_an_inherited_one_left_out(weir):
    weir.make_store()
    _publish(weir, greet={'exec': ['true']})
    refused = weir.run('enqueue', '-w', 'acme', 'hello', '--traceparent', '01-x', code=2)
    assert '"01-x" is no traceparent of version 00' in refused.err and TRACEPARENT in refused.err, refused
    line = json.dumps({'workspace': 'acme', 'workflow': 'hello', 'traceparent': 'x'})
    assert 'no traceparent' in weir.run('enqueue', '-', stdin=line, code=1).err
    assert weir.items('list') == []
    inherited = weir.good('enqueue', '-w', 'acme', 'hello', env={'TRACEPARENT': 'x'})
    assert 'TRACEPARENT' in inherited.err, inherited
    assert weir.good('show', inherited.out.strip(), '--json').json()['traceparent'] is None


def a_collector_gets_the_tree_of_an_execution(weir):
    collector = Collector(weir)
    weir.make_store()
    _publish(weir, greet={'exec': ['sh', '-c', f'echo "$TRACEPARENT"; echo {CANARY} >&2']},
             fails={'needs': ['greet'], 'exec': ['sh', '-c', f'echo {CANARY} >&2; exit 3']})
    node = weir.spawn('serve', '--allow-exec', '--node', 'one', env={'WEIR_OTEL_ENDPOINT': collector.endpoint},
                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    params = json.dumps({'secret': CANARY})
    id = weir.good('enqueue', '-w', 'acme', 'hello', '-p', params, '--traceparent', TRACEPARENT).out.strip()
    weir.run('wait', id)
    names = ['queue_processing', 'claim_batch', 'enqueue hello', 'process_item hello', 'dispatch hello', 'execution hello',
             'settle hello', 'step greet', 'step fails']
    spans = _await_spans(collector, names)
    node.send_signal(signal.SIGTERM)
    assert node.wait(60) == 0
    parents = {'enqueue hello': CALLER}
    for child, parent in (('process_item hello', 'enqueue hello'), ('dispatch hello', 'process_item hello'),
                          ('execution hello', 'enqueue hello'), ('settle hello', 'execution hello'),
                          ('step greet', 'execution hello'), ('step fails', 'execution hello')):
        parents[child] = _named(spans, parent)['spanId']
    for name, parent in parents.items():
        span = _named(spans, name)
        assert span['traceId'] == TRACE and span['parentSpanId'] == parent, (name, span)
        about = _attributes(span)
        assert about['weir.workspace.id'] == 'acme' and about['messaging.message.id'] == id, about
        assert int(span['startTimeUnixNano']) <= int(span['endTimeUnixNano']), span
    of_step = _named(spans, 'step greet')
    output = weir.good('show', id, '--json').json()['steps'][0]['output']
    assert output == f'00-{TRACE}-{of_step["spanId"]}-01', (output, of_step)
    assert _named(spans, 'step fails')['status'] == {'message': 'exit_3', 'code': 2}
    assert _attributes(_named(spans, 'execution hello'))['weir.result'] == 'failure'
    claim, flow = _named(spans, 'claim_batch'), _named(spans, 'queue_processing')
    assert claim['parentSpanId'] == flow['spanId'] and claim['traceId'] == flow['traceId'] != TRACE
    assert _attributes(claim)['messaging.batch.message_count'] == '1'
    assert CANARY not in open(collector.file).read()


def an_execution_without_a_caller_has_a_trace_of_its_own(weir):
    collector = Collector(weir)
    weir.make_store()
    _publish(weir, greet={'exec': ['true']})
    weir.spawn('serve', '--allow-exec', env={'WEIR_OTEL_ENDPOINT': collector.endpoint}, stdout=subprocess.DEVNULL,
               stderr=subprocess.DEVNULL)
    id = weir.good('enqueue', '-w', 'acme', 'hello').out.strip()
    spans = _await_spans(collector, ['enqueue hello', 'execution hello'])
    root = _named(spans, 'enqueue hello')
    assert root['traceId'] == id.replace('-', '') and root.get('parentSpanId', '') == '', root


def sampling_is_the_callers_affair_else_the_settings(weir):
    collector = Collector(weir)
    weir.make_store()
    _publish(weir, greet={'exec': ['true']})
    node = weir.spawn('serve', '--allow-exec', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                      env={'WEIR_OTEL_ENDPOINT': collector.endpoint, 'WEIR_OTEL_SAMPLE': '0'})
    weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q')
    weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q', '--traceparent', TRACEPARENT.replace('-01', '-00'))
    sampled = weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q', '--traceparent', TRACEPARENT).out.split()[0]
    _await_spans(collector, ['execution hello'])
    node.send_signal(signal.SIGTERM)
    assert node.wait(60) == 0
    assert {_attributes(span)['messaging.message.id'] for span in collector.spans()} == {sampled}


def _metric(listener, name):
    return int(re.search(rf'^{name} (\d+)$', listener.ask('/metrics').body.decode(), re.M).group(1))


def without_a_collector_work_goes_on_and_spans_are_counted(weir):
    port = free_port()
    weir.make_store()
    _publish(weir, greet={'exec': ['true']})
    weir.environment['WEIR_OTEL_ENDPOINT'] = f'http://127.0.0.1:{port}'
    listener = Listener(weir).ready()
    for _ in range(20):
        weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q')
    collector = Collector(weir, port)
    weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q')
    wait_for('spans in the collector', lambda: _metric(listener, 'weir_spans_exported_total') > 0)
    collector.stop()
    for _ in range(3):
        weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q')
    wait_for('dropped spans', lambda: _metric(listener, 'weir_spans_dropped_total') > 0)
    listener.stop()
    assert weir.good('list', '--status', 'completed', '--count', '--json').json()['count'] == 24
    said = open(weir.path('node.out')).read()
    assert 'spans.dropped' in said and 'the collector: ' in said, said


def an_endpoint_that_is_no_url_ends_the_start(weir):
    weir.make_store()
    refused = weir.run('serve', env={'WEIR_OTEL_ENDPOINT': 'collector:4318'}, code=2)
    assert 'otel.endpoint: "collector:4318" is no URL of a collector' in refused.err, refused
    refused = weir.run('serve', env={'WEIR_OTEL_SAMPLE': '1.5'}, code=2)
    assert 'otel.sample: "1.5" is not a number from 0 to 1' in refused.err, refused


if __name__ == '__main__':
    if not os.path.exists(_collector_binary()):
        print(f'1..0 # SKIP {NOT_INSTALLED}')
        sys.exit(0)
    # A node that is late must not make spans of a second run.
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], lambda weir: weir.environment.update(LONG_LEASE)))
