#!/usr/bin/env python3
"""What weir takes for JSON and what it refuses (json_corpus.py): params in a file, params in JSON lines, workflow
definitions. What is taken is in the store byte for byte as it was written; what is refused is told with its place and
leaves nothing.

usage: json_corpus_test.py BINARY [TEST ...]      WEIR_JSON_CORPUS: a file of the published corpus to read as well, as
                                                  tools/install_json_corpus.sh prints it
"""

import json
import os
import re
import sqlite3
import sys

from harness import LONG_CAMPAIGNS, run_tests
from json_corpus import CASES, DOCUMENTS, published
from postgres_server import PostgresServer

REFUSED = 2
PLACE = re.compile(r'line \d+ column \d+')
REFUSED_OF_PUBLISHED = ('y_object_duplicated_key', 'y_object_escaped_null_in_key')
# Of a definition YAML is read, of which JSON is a part, and less deep.
NOT_IN_DEFINITIONS = {'y_deepest_arrays', 'y_deepest_objects', 'y_string_escaped_nul'}
NOT_IN_YAML_EITHER = re.compile(r'r_|n_utf|n_byte_nul|n_number_nul|n_number_bad_byte|n_word_and_open|n_array_open|'
                                r'n_object_open|n_string_open|n_string_escape_(digit|short|no_hex|braces|capital_u)')


def _params(value):
    return b'{"v":' + value + b'}'


def _line(params):
    return b'{"workspace":"acme","workflow":"hello","params":' + params + b'}'


def _check_file(weir, name, params, is_taken, has_place=True):
    """Puts the params to weir by a file; the id and the bytes when they were taken."""
    weir.write('params.json', params)
    result = weir.run('enqueue', '-w', 'acme', 'hello', '-q', '--params', '@params.json')
    assert result.code == (0 if is_taken else REFUSED), (name, params[:80], result)
    if not is_taken:
        assert result.err.startswith(('weir: params', 'weir: --params')) and result.out == '', (name, result)
        assert not has_place or PLACE.search(result.err) or not params and 'is empty' in result.err, (name, result)
        return {}
    return {result.out.strip(): params}


def _check_lines(weir, cases):
    """The same by JSON lines, all in one go. A line ends where a line ends, so that cases of several lines are left out."""
    cases = {name: params for name, params in cases.items() if b'\n' not in params}
    result = weir.run('enqueue', '-', stdin=b'\n'.join(map(_line, cases.values())))
    refused = {int(number): said for number, said in re.findall(r'^line (\d+): (.*)', result.err, re.MULTILINE)}
    for number, (name, params) in enumerate(cases.items(), 1):
        assert (number in refused) == (name[0] != 'y'), (name, params[:80], refused.get(number))
        assert number not in refused or PLACE.search(refused[number]), (name, refused[number])
    taken = [params for number, params in enumerate(cases.values(), 1) if number not in refused]
    assert f'{len(refused)} of {len(cases)} executions were refused, {len(taken)} enqueued' in result.err, result
    return dict(zip(result.out.split(), taken))


def _kept(expected):
    """Of an empty object nothing is kept: it is what is read when nothing is there."""
    return {id: params for id, params in expected.items() if params != b'{}'}


def _in_file(weir):
    with sqlite3.connect(weir.path('weir.db')) as database:
        return dict(database.execute('SELECT id, params FROM execution_params'))


def params_of_a_file_are_kept_byte_for_byte_or_refused_with_their_place(weir):
    """All of them when there is time (`./dev check corpora`), else those that no line can hold and those that are
    documents: the others are in the lines below."""
    weir.make_store()
    expected = {}
    for name, value in CASES.items():
        if LONG_CAMPAIGNS or b'\n' in value:
            expected |= _check_file(weir, name, _params(value), name[0] == 'y')
    for name, document in DOCUMENTS.items():
        expected |= _check_file(weir, name, document, name[0] == 'y', has_place=name[0] == 'n')
    assert _in_file(weir) == _kept(expected)


def params_of_lines_are_kept_byte_for_byte_or_refused_with_their_place(weir):
    weir.make_store()
    expected = _check_lines(weir, {name: _params(value) for name, value in CASES.items()})
    assert _in_file(weir) == _kept(expected)


def on_postgresql_too_params_are_kept_byte_for_byte(weir):
    server = PostgresServer()
    weir.environment['WEIR_STORE'] = server.url()
    weir.make_store()
    expected = _check_lines(weir, {name: _params(value) for name, value in CASES.items()})
    rows = server.sql("SELECT id, encode(params, 'hex') FROM weir.execution_params").splitlines()
    assert {id: bytes.fromhex(text) for id, text in (row.split('|') for row in rows)} == expected
    server.close()


def a_line_that_is_no_document_is_refused_and_the_others_are_taken(weir):
    weir.make_store()
    documents = [document for name, document in DOCUMENTS.items() if b'\n' not in document and name[0] != 'y' and document]
    good = _line(b'{"v":1}')
    result = weir.run('enqueue', '-', stdin=b'\n'.join(part for document in documents for part in (good, document)), code=1)
    refused = [int(number) for number in re.findall(r'^line (\d+): ', result.err, re.MULTILINE)]
    assert refused == [2 * number for number in range(1, len(documents) + 1)], result
    assert len(_in_file(weir)) == len(documents)


def definitions_mean_what_their_json_means(weir):
    weir.make_store()
    expected = {}
    for number, (name, value) in enumerate(CASES.items()):
        definition = b'{"name":"w%d","steps":{"s":{"handler":"h","input":%b}}}' % (number, _params(value))
        weir.write('definition.json', definition)
        result = weir.run('workflow', 'apply', 'definition.json', '-q')
        assert result.code in (0, REFUSED), (name, result)
        assert result.code == 0 or re.match(r'weir: definition.json:(\d+:\d+:)? ', result.err), (name, result)
        if name[0] == 'y' and name not in NOT_IN_DEFINITIONS:
            assert result.code == 0, (name, result)
            expected[f'w{number}'] = json.loads(value)
        elif name[0] == 'y' or NOT_IN_YAML_EITHER.match(name):
            assert result.code == REFUSED, (name, result)
    found = {item['name']: item['definition']['steps']['s'].get('input') for item in weir.items('workflow', 'list')
             if item['name'] in expected}
    wrong = {name: (found.get(name), value) for name, value in expected.items() if found.get(name) != {'v': value}}
    assert not wrong, wrong


def the_published_corpus_is_read_as_its_names_say(weir):
    """What RFC 8259 leaves open is taken or refused, and kept as it was written when it is taken."""
    weir.make_store()
    expected, verdicts = {}, {'y': 0, 'n': 0, 'i': 0}
    for name, value in published(os.environ['WEIR_JSON_CORPUS']):
        params = _params(value)
        is_taken = name[0] == 'y' and not name.startswith(REFUSED_OF_PUBLISHED)
        verdicts[name[0]] += 1
        if name[0] == 'i':
            weir.write('params.json', params)
            is_taken = weir.run('enqueue', '-w', 'acme', 'hello', '-n', '--params', '@params.json').code == 0
        expected |= _check_file(weir, name, params, is_taken)
    assert _in_file(weir) == _kept(expected)
    print(f'# {verdicts}', flush=True)
    assert verdicts['y'] > 90 and verdicts['n'] > 180 and verdicts['i'] > 30, verdicts


if __name__ == '__main__':
    if 'WEIR_JSON_CORPUS' not in os.environ:
        del the_published_corpus_is_read_as_its_names_say
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
