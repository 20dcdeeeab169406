"""What the tests of the scheduler's role share: nodes with names, who schedules, and how far the executions are."""

import json

from waiting import wait_for


def serve(weir, name):
    process = weir.spawn('serve', '--allow-exec', '--node', name)
    line = process.stdout.readline()
    assert line, process.stderr.read()
    assert json.loads(line)['event'] == 'node.started', line
    return process


def gated(weir):
    """A workflow whose step runs until the file `go` is there."""
    weir.write('gated.yaml', 'name: gated\nsteps:\n  only:\n    exec: [sh, -c, "until [ -e \\"$0\\" ]; do sleep 0.05; '
                             f'done", "{weir.path("go")}"]\n')
    weir.good('workflow', 'apply', 'gated.yaml', '-q')


def role_of(weir):
    return weir.good('status', '--json').json()['scheduler']


def held_by(weir, name, above=0):
    """The role once the node has it, with an epoch above this one."""
    def look():
        role = role_of(weir)
        return role if role['node'] == name and not role['is_free'] and role['epoch'] > above else None
    return wait_for(lambda: f'{name} as the scheduler, not {role_of(weir)},', look, seconds=60)


def states(weir):
    return [row['status'] for row in weir.items('list', '--limit', '1000')]


def all_complete(weir, count):
    wait_for(lambda: f'the end of {count}, not {states(weir)},', lambda: states(weir) == ['COMPLETED'] * count)


def living(weir, most=1):
    """Some of the executions that have not ended."""
    return weir.items('list', '--status', 'pending,claimed,dispatched', '--limit', str(most))
