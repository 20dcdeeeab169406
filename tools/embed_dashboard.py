#!/usr/bin/env python3
"""Turns the built files of the dashboard into a C header with a table, each file plain and with gzip.

The version of the whole is a hash of all files. It is a part of each address (assets/VERSION/app.js), so a browser may keep
a file for ever: @VERSION@ in the page stands for it. The same files have the same version everywhere. The bytes with gzip
depend on the zlib of the machine, so the header is the same only where that is.

usage: embed_dashboard.py TO.h FILE...
"""

import gzip
import hashlib
import os
import sys

TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8',
         '.svg': 'image/svg+xml', '.woff2': 'font/woff2', '.txt': 'text/plain; charset=utf-8'}
#: Of the whole, with gzip: what a browser loads on its first visit.
PACKED_BYTES_MAX = 150 * 1024
#: Of the box for pages of other sites, without fonts, which each of their visitors loads.
BOX_FILES = ('embed.html', 'embed.js', 'embed.css')
BOX_BYTES_MAX = 32 * 1024
#: A font is packed in itself.
SHORTER = 0.95


def bytes_of(name, data):
    lines = [','.join(str(byte) for byte in data[at:at + 40]) for at in range(0, len(data), 40)]
    return f'static const unsigned char {name}[] = {{\n' + ',\n'.join(lines) + '};\n'


def main():
    target, *paths = sys.argv[1:]
    files = []
    for path in sorted(paths, key=os.path.basename):
        with open(path, 'rb') as file:
            files.append((os.path.basename(path), file.read()))
    whole = hashlib.sha256()
    for name, data in files:
        whole.update(f'{name} {len(data)}\n'.encode() + data)
    version = whole.hexdigest()[:16]
    arrays, rows, total, box = [], [], 0, 0
    for number, (name, data) in enumerate(files):
        data = data.replace(b'@VERSION@', version.encode()) if name.endswith('.html') else data
        packed = gzip.compress(data, 9, mtime=0)
        packed = packed if len(packed) < len(data) * SHORTER else b''
        total += len(packed or data)
        box += len(packed or data) if name in BOX_FILES else 0
        arrays.append(bytes_of(f'plain_{number}', data))
        if packed:
            arrays.append(bytes_of(f'packed_{number}', packed))
        rows.append(f'    {{"{name}", "{TYPES[os.path.splitext(name)[1]]}", plain_{number}, '
                    f'{f"packed_{number}" if packed else "NULL"}, {len(data)}, {len(packed)}}},\n')
    if total > PACKED_BYTES_MAX:
        sys.exit(f'embed_dashboard.py: the files have {total} bytes with gzip, the limit is {PACKED_BYTES_MAX}')
    if box > BOX_BYTES_MAX:
        sys.exit(f'embed_dashboard.py: the box has {box} bytes with gzip, the limit is {BOX_BYTES_MAX}')
    with open(target, 'w', encoding='utf-8') as file:
        file.write('\n'.join(arrays) + f'\n#define DASHBOARD_VERSION "{version}"\n'
                   'static const struct dashboard_file dashboard_files[] = {\n' + ''.join(rows) + '};\n')


main()
