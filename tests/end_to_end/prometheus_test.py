#!/usr/bin/env python3
"""Alerts, dashboards and metrics against Prometheus itself: promtool reads all of them, and a server scrapes two nodes
whose engine, a real Temporal service, is stopped. `./dev check prometheus` installs what it needs.

usage: prometheus_test.py BINARY [TEST ...]
"""

import json
import os
import re
import subprocess
import sys
import urllib.request

from harness import run_tests
from metrics_test import Node
from ports import free_port
from temporal_parts import FOLDER, NOT_INSTALLED, Server
from waiting import SHORT, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RULES = os.path.join(ROOT, 'packaging', 'prometheus', 'alerts.yml')
DASHBOARDS = [os.path.join(ROOT, 'packaging', 'grafana', f'weir-{name}.json') for name in ('queue', 'nodes')]
NAME = re.compile(r'\b(?:weir_\w+|queue_\w+|shedlock_\w+)')


def _promtool(*words, stdin=None):
    done = subprocess.run(['promtool', *words], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    assert done.returncode == 0, f'promtool {" ".join(words)}\n{done.stdout}'
    return done.stdout


def _expressions(path):
    """Of a dashboard, with its variables filled in."""
    with open(path) as file:
        panels = json.load(file)['panels']
    assert len({panel['id'] for panel in panels}) == len(panels), 'two panels have one id'
    return [target['expr'].replace('$job', 'weir') for panel in panels for target in panel['targets']]


def _exported(weir):
    """The names of all series of a node, with the suffixes of histograms."""
    weir.make_store()
    node = Node(weir).ready()
    text = node.ask('/metrics').body.decode()
    node.stop()
    names = set()
    for name, kind in re.findall(r'^# TYPE (\S+) (\S+)$', text, re.MULTILINE):
        names |= {f'{name}_{suffix}' for suffix in ('bucket', 'sum', 'count')} if kind == 'histogram' else {name}
    return names, text


def the_metrics_of_a_node_pass_promtool(weir):
    _, text = _exported(weir)
    _promtool('check', 'metrics', stdin=text)


def alert_rules_are_valid_and_fire_in_a_simulated_outage(weir):
    assert 'SUCCESS' in _promtool('check', 'rules', RULES)
    _promtool('test', 'rules', os.path.join(ROOT, 'tests', 'prometheus', 'alerts_test.yml'))
    with open(RULES) as file, open(os.path.join(ROOT, 'tests', 'prometheus', 'alerts_test.yml')) as test:
        alerts = set(re.findall(r'- alert: (\w+)', file.read()))
        fired = set(re.findall(r'eval_time: \w+\n\s+alertname: (\w+)\n\s+exp_alerts:\n', test.read()))
    assert alerts == fired, f'no outage for {alerts - fired}'


def every_expression_of_alerts_and_dashboards_names_metrics_that_exist(weir):
    exported, _ = _exported(weir)
    with open(RULES) as file:
        used = set(NAME.findall(''.join(line for line in file if '#' not in line)))
    for path in DASHBOARDS:
        expressions = _expressions(path)
        assert len(expressions) > 15, path
        # JSON is YAML.
        rules = [{'record': f'weir:panel:{number}', 'expr': expression} for number, expression in enumerate(expressions)]
        weir.write('panels.yml', json.dumps({'groups': [{'name': 'panels', 'rules': rules}]}))
        assert f'{len(rules)} rules found' in _promtool('check', 'rules', weir.path('panels.yml'))
        used |= set(NAME.findall(' '.join(expressions)))
    assert used <= exported, f'there is no metric {used - exported}'


class Prometheus:
    """A server that scrapes nodes and evaluates the alert rules, in an instant instead of minutes."""

    def __init__(self, weir, nodes):
        with open(RULES) as file:
            weir.write('alerts.yml', re.sub(r'for: \w+', 'for: 0s', file.read()))
        targets = [f'127.0.0.1:{node.port}' for node in nodes]
        weir.write('prometheus.yml', json.dumps({
            'global': {'scrape_interval': '2s', 'scrape_timeout': '2s', 'evaluation_interval': '1s'},
            'rule_files': ['alerts.yml'],
            'scrape_configs': [{'job_name': 'weir', 'static_configs': [{'targets': targets}]}]}))
        self.port = free_port()
        with open(weir.path('prometheus.log'), 'w') as log:
            self.process = subprocess.Popen(
                ['prometheus', f'--config.file={weir.path("prometheus.yml")}', f'--storage.tsdb.path={weir.path("tsdb")}',
                 f'--web.listen-address=127.0.0.1:{self.port}'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        weir.background.append(self.process)

    def ask(self, path):
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{self.port}/api/v1/{path}', timeout=30) as answer:
                return json.load(answer)['data']
        except OSError:
            assert self.process.poll() is None, 'Prometheus has ended'
            return None  # it does not listen yet

    def values(self, query):
        answer = self.ask(f'query?query={query}')
        return [float(row['value'][1]) for row in answer['result']] if answer else []

    def firing(self):
        answer = wait_for('the alerts', lambda: self.ask('alerts'), pause=SHORT)
        return {(alert['labels']['alertname'], alert['labels'].get('node')) for alert in answer['alerts']
                if alert['state'] == 'firing'}


def an_alert_fires_when_the_engine_of_two_nodes_is_stopped(weir):
    assert FOLDER is not None, NOT_INSTALLED
    engine = Server()
    weir.good('store', 'init', '-q')
    settings = {'engine': 'temporal', 'temporal': {'address': engine.address}}
    nodes = [Node(weir, name, **settings).ready() for name in ('one', 'two')]
    prometheus = Prometheus(weir, nodes)

    def is_calm():  # a scrape that is late is an alert for a moment
        names = {name for name, _ in prometheus.firing()}
        return (prometheus.values('weir_engine_up') == prometheus.values('up') == [1, 1] and
                not names & {'WeirEngineDown', 'WeirNodeDown', 'WeirStoreUnreachable'})
    wait_for('scrapes of both nodes and no alert', is_calm, pause=SHORT)
    engine.kill()
    both = {('WeirEngineDown', 'one'), ('WeirEngineDown', 'two')}
    wait_for(lambda: f'the alert, among {prometheus.firing()}', lambda: both <= prometheus.firing(), pause=SHORT)
    engine.start()
    wait_for('the end of the alert', lambda: not both & prometheus.firing(), pause=SHORT)
    nodes[1].process.kill()
    wait_for('the alert of the node', lambda: ('WeirNodeDown', None) in prometheus.firing(), pause=SHORT)
    nodes[0].stop()
    engine.close()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
