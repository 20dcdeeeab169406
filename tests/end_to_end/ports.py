"""Ports for servers that are told theirs before they start."""

import os
import socket

FIRST, END = 15000, 32000  # below those that the system gives to whoever asks for any
_reservations = []


def free_port():
    """A port of 127.0.0.1 that no other test takes before the server does: it is reserved, until this program ends, by a
    name that the kernel keeps (tests/support/postgres_server.c has the same)."""
    start = os.getpid() * 97 + len(_reservations)
    for at in range(END - FIRST):
        port = FIRST + (start + at) % (END - FIRST)
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            name.bind(f'\0weir-test-port-{port}')
            with socket.socket() as probe:
                probe.bind(('127.0.0.1', port))
        except OSError:
            name.close()
            continue
        _reservations.append(name)
        return port
    raise AssertionError('there is no free port')
