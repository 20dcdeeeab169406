#!/usr/bin/env python3
"""Writes the table of routes into docs/http.md, from `weir __routes`. A test compares both.

usage: print_routes.py BINARY [DOCUMENT]
"""

import json
import os
import subprocess
import sys

DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'docs', 'http.md')
BEGIN = '<!-- routes: written by tools/print_routes.py -->\n'
END = '<!-- end of routes -->\n'


def table_of(routes):
    lines = ['| method | path | does | scope | arguments | command |', '|---|---|---|---|---|---|']
    for route in routes:
        arguments = [f'`{argument["name"]}`' for argument in route['arguments']]
        if route['takes_filter']:
            arguments.append('keys of a filter')
        command = f'`weir {route["command"]}`' if 'command' in route else ''
        lines.append(f'| {route["method"]} | `{route["path"]}` | {route["summary"]} | {route["scope"]} | '
                     f'{", ".join(arguments)} | {command} |')
    return '\n'.join(lines) + '\n'


def document_with_table(binary, text):
    routes = json.loads(subprocess.run([binary, '__routes'], stdout=subprocess.PIPE, check=True).stdout)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f'{before}{BEGIN}{table_of(routes)}{END}{after}'


def main():
    path = sys.argv[2] if len(sys.argv) > 2 else DOCUMENT
    with open(path) as file:
        text = file.read()
    text = document_with_table(sys.argv[1], text)
    with open(path, 'w') as file:
        file.write(text)


if __name__ == '__main__':
    main()
