#!/usr/bin/env python3
"""Mistakes of newcomers in definitions, params and outputs: each error names the mistake and shows the right line.

usage: mistakes_test.py BINARY [TEST ...]
"""

import sys

from dev_node import start_dev_node
from harness import run_tests

STEP = 'steps:\n  a:\n    exec: [echo, hello]\n'


def _exec(argument):
    return f'name: w\nsteps:\n  a:\n    exec: [echo, {argument}]\n'


BRACES = '{{ }} is no expression here'
# (definition, the place, the mistake, the hint)
DEFINITIONS = (
    (_exec('"hello {{ input.x }}"'), '4:25: ', BRACES, '${.input.name}'),
    (_exec('"{{steps.b.output}}"'), '4:19: ', BRACES, '${.steps.ID.output}'),
    (_exec('"${{ input.x }}"'), '4:19: ', BRACES, '${.input.name}'),
    (_exec('{{ input.x }}'), '4:19: ', 'a key must be text, not a map', '"${.input.name}"'),
    (_exec('${{ input.x }}'), '4:', '', '"${.input.name}"'),
    ('name: w\nschedule: "0 2 * * *"\n' + STEP, '2:1: ', 'unknown key "schedule"', 'write schedules: {NAME: {cron: '),
    ('name: w\nconcurrency: 3\n' + STEP, '2:1: ', 'unknown key "concurrency"', 'weir plan set NAME --max-concurrent N'),
    ('name: w\nretry: 3\n' + STEP, '2:1: ', 'unknown key "retry"', 'retry: {attempts: 3}'),
    ('name: w\n' + STEP + '    retry: 3\n', '5:12: ', '"retry" must be a map, not a number', 'retry: {attempts: 3}'),
    ('name: w\ninputs: [x]\n' + STEP, '2:1: ', 'unknown key "inputs"', '${.input.NAME}'),
    ('name: w\njobs: {}\n', '2:1: ', 'unknown key "jobs"', 'steps: {NAME: {exec: [...]}'),
)


def mistakes_of_a_definition_show_the_right_line(weir):
    for text, place, mistake, hint in DEFINITIONS:
        weir.write('w.yaml', text)
        answer = weir.run('workflow', 'apply', 'w.yaml', '--dry-run')
        message, _, shown = answer.err.partition('hint: ')
        assert answer.code != 0 and answer.out == '', (text, answer)
        assert 'w.yaml:' + place in message and mistake in message and hint in shown, (text, answer)


def templates_of_programs_and_quoted_braces_stay_text(weir):
    weir.make_store()
    node = start_dev_node(weir)
    weir.write('w.yaml', 'name: w\nsteps:\n  a:\n    exec: [printf, "%s %s %s", "{{.Names}}", "{{ name }}", '
                         '\'${"{{ input.x }}"}\']\n')
    weir.good('workflow', 'apply', 'w.yaml')
    answer = weir.good('enqueue', '-w', 'acme', 'w', '--wait', '--json')
    assert '{{.Names}} {{ name }} {{ input.x }}' in answer.out, answer
    assert node.poll() is None


def params_that_are_no_json_are_shown_as_json(weir):
    weir.make_store()
    for given, shown in (('name=Ada', '-p \'{"name":"Ada"}\''), ('count=3', '-p \'{"count":3}\''),
                         ('no-value', '{"customer":42}'), ("name=O'Neill", '{"customer":42}'), ('[1]', '{"customer":42}')):
        answer = weir.run('enqueue', '-w', 'acme', 'hello', '-p', given)
        assert answer.code != 0 and shown in answer.err.partition('hint: ')[2], (given, answer)


def text_before_the_json_of_an_output_is_named(weir):
    weir.make_store()
    node = start_dev_node(weir)
    for name, reads in (('path', '${.steps.fetch.output.id}'), ('program', '${.steps.fetch.output | .id}')):
        weir.write('w.yaml', f'name: {name}\nsteps:\n'
                   '  fetch:\n    exec: [sh, -c, \'echo Loading ...; echo "{\\"id\\": 7}"\']\n'
                   f'  use:\n    needs: [fetch]\n    exec: [echo, "{reads}"]\n')
        weir.good('workflow', 'apply', 'w.yaml')
        answer = weir.run('enqueue', '-w', 'acme', name, '--wait', code=1)
        for part in (reads, 'the output of step "fetch" is text, not JSON, and begins with "Loading ', '$WEIR_OUTPUT'):
            assert part in answer.err, (part, answer)
    assert node.poll() is None


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
