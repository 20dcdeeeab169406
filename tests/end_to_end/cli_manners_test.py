#!/usr/bin/env python3
"""How the command line behaves whatever is asked of it: formats, terminals, closed outputs, help, and slips.

usage: cli_manners_test.py BINARY [TEST ...]
"""

import json
import os
import subprocess
import sys

from harness import UUID, assert_error, run_tests

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# --- manners ---

def _without_ages(items):
    """They differ between two calls."""
    return [{key: value for key, value in item.items() if key != 'oldest_pending_age_us'} for item in items]


def every_list_is_json_and_jsonl(weir):
    weir.make_store()
    weir.enqueue_many(2)
    weir.good('schedule', 'set', 'nightly', '--every', '1h', '--workflow', 'hello', '-w', 'acme', '-q')
    weir.good('token', 'create', 'reader', '--role', 'read', '--all-workspaces', '-q')
    weir.good('hook', 'set', 'after', '--on', 'failed', '--start-workflow', 'hello', '--start-workspace', 'acme', '-q')
    lists = [command['name'].split() for command in _commands(weir) if command['name'].split()[-1] == 'list']
    assert len(lists) >= 10, lists
    for words in (*lists, ['audit'], ['store', 'plan'], ['config', 'show']):
        page = weir.good(*words, '--json').json()
        assert {'items', 'next_cursor', 'count', 'count_is_exact'} <= set(page), words
        assert _without_ages(weir.good(*words, '-o', 'jsonl').jsonl()) == _without_ages(page['items']), words
        pages = [weir.good(*words, '-o', 'json').json(), weir.good('-o=json', *words).json()]
        for page in pages:
            page.pop('scheduler', None)  # it shows how old the news is
            page['items'] = _without_ages(page['items'])
        assert pages[0] == pages[1], words


def errors_are_json_when_json_is_asked_for(weir):
    for words in (('list', '--json'), ('list', '-o', 'jsonl'), ('-ojson', 'list')):
        result = weir.run(*words, code=6)
        error = json.loads(result.err)['error']
        assert error['code'] == 'store_unreachable' and error['exit'] == 6 and 'weir store init' in error['hint']
        assert result.out == ''
    error = json.loads(weir.run('lisst', '--json', code=2).err)['error']
    assert error['code'] == 'invalid_argument' and 'weir list' in error['hint']


def no_escape_codes_where_no_terminal_wants_them(weir):
    weir.make_store()
    weir.enqueue()
    for words in (('list',), ('status',), ('doctor',), ('workspace', 'list'), ('help',), ('nonsense',)):
        piped = weir.run(*words, env={'TERM': 'xterm'})
        assert '\x1b' not in piped.out + piped.err, words
        for quiet in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
            assert '\x1b' not in weir.terminal(*words, env=quiet).out, (words, quiet)
    assert '\x1b[' in weir.terminal('status').out
    assert '\x1b[' in weir.terminal('nonsense').out


def signs_are_ascii_where_the_locale_is(weir):
    weir.make_store()
    weir.enqueue()
    for words in (('list',), ('doctor',), ('status',)):
        assert weir.run(*words, env={'LANG': 'C'}).out.isascii()


def foreign_text_cannot_reach_the_terminal(weir):
    weir.make_store()
    nasty = 'a\x1b[31mred\x07\u202eb\u009b2J'
    weir.good('workspace', 'set', 'acme', '--plan', 'pro')
    execution = weir.enqueue('-w', 'acme', 'hello', '-k', nasty, '--params', json.dumps({'x': nasty}, ensure_ascii=False))
    for words in (('show', execution), ('list',), ('list', '--where', f"idempotency_key='{nasty}'"),
                  ('show', execution, '--json'), ('show', nasty), (nasty,), ('workspace', 'show', nasty)):
        shown = weir.terminal(*words, env={'NO_COLOR': '1'}).out
        assert not set(shown) & set('\x1b\x07\u202e\u009b'), words
    assert weir.good('show', execution, '--json').json()['idempotency_key'] == nasty


def a_closed_stdout_ends_quietly(weir):
    weir.make_store()
    weir.enqueue_many(100)
    for words in (('list',), ('list', '--json'), ('help',), ('config', 'show')):
        reader, writer = os.pipe()
        os.close(reader)
        process = weir.start(*words, stdout=writer)
        os.close(writer)
        _, err = process.communicate()
        assert process.returncode == 1 and err == b'', (words, process.returncode, err)
    reader, writer = os.pipe()
    os.close(reader)
    process = weir.start('enqueue', '-', stdin=subprocess.PIPE, stdout=writer)
    os.close(writer)
    process.communicate(b'{"workspace":"acme","workflow":"hello"}\n' * 10)
    assert process.returncode == 1
    assert len(weir.items('list', '--limit', '1000')) == 110
    with open('/dev/full', 'w') as full:
        process = weir.start('list', stdout=full)
        _, err = process.communicate()
        assert process.returncode == 1 and b'cannot write to stdout' in err


def quiet_prints_only_errors(weir):
    weir.make_store()
    execution = weir.good('enqueue', '-w', 'acme', 'hello', '-q')
    assert execution.err == ''
    assert weir.good('cancel', execution.out.strip(), '-q').err == ''
    assert weir.run('cancel', execution.out.strip(), '-q').err != ''


def tables_are_cut_on_a_narrow_terminal_alone(weir):
    weir.make_store()
    workspace, workflow = 'a-workspace-with-quite-a-long-name-that-goes-on-and-on', 'w' * 60
    weir.good('workspace', 'set', workspace, '-q')
    weir.write('long.yaml', f'name: {workflow}\nsteps:\n  a:\n    exec: [echo]\n')
    weir.good('workflow', 'apply', 'long.yaml', '-q')
    id = weir.good('enqueue', '-q', '-w', workspace, workflow).out.strip()
    screen = {'COLUMNS': '80', 'NO_COLOR': '1'}
    for words, whole in ((('list',), (id, workspace, workflow)), (('workspace', 'list'), (workspace,)),
                         (('workflow', 'list'), (workflow,)), (('status',), (workspace,)),
                         (('config', 'show', '--origin'), ())):
        lines = weir.terminal(*words, env=screen).out.splitlines()
        assert max(map(len, lines)) <= 80, lines
        for result in (weir.good(*words), weir.terminal(*words, '--wide', env=screen)):
            assert all(text in result.out for text in whole), repr(result)
    row = [line for line in weir.good('list').out.splitlines() if workspace in line]
    assert len(row) == 1 and id in row[0] and workflow in row[0], row  # grep finds the row by each of its cells


# --- help ---

def _commands(weir):
    return weir.good('help', '--json').json()['commands']


def every_verb_explains_itself_with_an_example_first(weir):
    for command in _commands(weir):
        for words in ((*command['name'].split(), '-h'), ('help', *command['name'].split()),
                      ('--help', *command['name'].split())):
            result = weir.good(*words)
            lines = result.out.splitlines()
            assert lines[0] == 'example:' and f'weir {command["name"]}' in lines[1], words
            assert all(len(line) <= 80 for line in lines), words
    names = [command['name'].split() for command in _commands(weir)]
    nouns = {words[0] for words in names if len(words) > 1} - {words[0] for words in names if len(words) == 1}
    assert len(nouns) > 10, nouns
    for noun in nouns:
        assert f'weir {noun} ' in weir.good(noun, '-h').out
        assert_error(weir.run(noun), 2, 'invalid_argument', 'needs a verb')
    assert weir.good('help').out == weir.good('--help').out


def a_misspelt_command_gets_the_nearest_one(weir):
    for words, hint in ((('enqeue',), 'weir enqueue'), (('ls',), 'weir list'),
                        (('workspace', 'lst'), 'weir workspace list'),
                        (('list', '--limt', '3'), '--limit'), (('list', '-o', 'jsn'), 'json'),
                        (('help', 'enqueu'), 'weir enqueue'), (('completion', 'bsh'), 'bash'),
                        (('serve', '--engine', 'inprocess'), 'in_process')):
        assert_error(weir.run(*words), 2, 'invalid_argument', hint)
    assert_error(weir.run('-q'), 2, 'invalid_argument', 'weir help')


def the_command_reference_is_current(weir):
    with open(os.path.join(ROOT, 'docs', 'commands.md')) as file:
        assert weir.good('help', '--markdown').out == file.read(), 'renew it: weir help --markdown > docs/commands.md'


def man_pages_are_made_from_the_table(weir):
    page = weir.good('help', '--man').out
    assert page.startswith('.TH "weir" 1') and all(f'"weir {command["name"]}' in page.replace('\\-', '-')
                                                   for command in _commands(weir))
    assert weir.good('help', 'workflow', 'apply', '--man').out.startswith('.TH "weir-workflow-apply" 1')


def the_version_is_printed_without_settings(weir):
    with open(os.path.join(ROOT, 'VERSION')) as file:
        version = file.read().strip()
    assert weir.good('version').out == f'weir {version}\n' == weir.good('--version').out == weir.good('-V').out
    assert weir.good('version', '--json').json()['weir_version'] == version


def flags_stand_anywhere_and_only_once(weir):
    weir.make_store()
    weir.good('-w', 'acme', '--json', 'enqueue', 'hello')
    weir.good('--where', 'workspace=acme', 'list', '--', )
    assert_error(weir.run('list', '-w', 'acme', '-w', 'tiny'), 2, 'invalid_argument', 'twice')
    assert 'contradict' in weir.run('list', '--json', '-o', 'table', code=2).err
    assert_error(weir.run('wait'), 2, 'invalid_argument', 'usage: weir wait ID')
    assert_error(weir.run('wait', 'a', 'b'), 2, 'invalid_argument', 'usage: weir wait ID')
    assert_error(weir.run('serve', '--dry-run'), 2, 'invalid_argument', 'dry')


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
