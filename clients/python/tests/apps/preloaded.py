"""A WSGI application that enqueues. With --preload gunicorn imports it once, before it forks its workers."""

import json
import os

import weir


@weir.workflow(name='welcome')
def welcome(user: int):
    return user


store = weir.configure()
if os.environ.get('OPENED_BEFORE_FORK'):
    store.set_workspace('acme')


def application(environ, start_response):
    user = int(environ['PATH_INFO'].strip('/'))
    try:
        answer = {'id': welcome.enqueue('acme', user=user, key=f'user-{user}')}
    except weir.Error as problem:
        answer = {'status': problem.status, 'message': problem.message, 'hint': problem.hint}
    start_response('200 OK', [('Content-Type', 'application/json')])
    return [json.dumps({**answer, 'process': os.getpid()}).encode()]
