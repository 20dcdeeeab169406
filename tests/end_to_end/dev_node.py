"""A node for development beside a test, and workflows of one program for it."""

import json
import subprocess

from waiting import wait_for


def start_dev_node(weir, *words):
    """The process of `weir dev`, once its node is alive and schedules: a test may freeze it at once."""
    node = weir.spawn('dev', *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_up():
        assert node.poll() is None
        is_alive = any(row['state'] == 'alive' for row in weir.items('node', 'list'))
        return is_alive and not weir.good('status', '--json').json()['scheduler']['is_free']
    wait_for('a node that schedules', is_up)
    return node


def publish_program(weir, name, program):
    """A workflow whose only step is a program of the shell."""
    weir.write('w.json', json.dumps({'name': name, 'steps': {'only': {'exec': ['sh', '-c', program]}}}))
    weir.good('workflow', 'apply', 'w.json', '-q')
