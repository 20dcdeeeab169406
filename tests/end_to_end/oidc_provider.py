"""An OpenID provider for tests: its configuration, its keys and the exchange of codes. Its tokens are as wrong as a test
wants.

Signatures are computed here, with numbers alone, so that no other program or package is needed. The keys guard nothing.
"""

import base64
import hashlib
import hmac
import http.server
import json
import secrets
import ssl
import threading
import time
import urllib.parse

CLIENT, SECRET = 'weir', 'a secret: with + and %'
# RSA of 2048 bits: modulus and private exponent.
MODULUS = int(
    'e2a324e88cc13a358da6e68bdafe37b47c31662a0a09c6115dc4d2df23bba2a80891dad7accbaa3d9b371033f66c5a134bb7d33260dd3af3'
    'b06789136b30a74afe89ff762179132ea96128ddf645eb27f43192166919aa910aa29d3c13540b00ee1d2b194e4c846bd3b59d686ed4e95f'
    'c71149791e16b13a8b8500aedfa987b6fb87e7c0e48cd46566d83e706739a00ece74a29867ca38da75f5c75ef5cbc53523dd5515a0c38e54'
    '3e19e7417ba4d6ccd5b8f8dbcb79ddf04ef9e3051001902fe19c5e8eaeb19b10960a5993dd61a5b9f48c476649c7004ea9352908ff7acfc0'
    '17aacac56584febedfaab59733a15a4be99e0e40f2a51ec2832ed4b633817db3', 16)
EXPONENT = int(
    '11589b42914358c930864daef69bee7789e9ddffe9b4c5cc1e792a0a9a198a61820667d18a102c7f7a99c44bb5d8a52c44e754eace2f208b'
    'f63c76695e12e33b02305db514eac76512e1b4d7083a61bd351b762af0f05df5abf2b6461ad49be2fe568d2deaa8409a6021ce6267d933e3'
    '78c101f69b2ef171a1ac14594e1513a5f0bfd1c36dbfce59bb58540917f60470bbe3c2d3c95e29763fb92a4b28138ff8e4cd23bb02b09d5e'
    '79a80f5576a4f8168f53b898a12198a10835e6e4eb5575c3f0cd43cd377f7d8b4c85c4f66ca02a0720880ad59bb71e210a3b04a17645d37b'
    '5092b294b0d9295dba27e3c8bbaddb362cac68894fa5fc6ebc200fa914f1811', 16)
# P-256 (FIPS 186-4): prime, order, base point.
PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551
BASE = (0x6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296,
        0x4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5)
EC_SECRET = 0x1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef


def letters(data):
    """base64url of bytes, of a number, or of a JSON value."""
    if isinstance(data, int):
        data = data.to_bytes((data.bit_length() + 7) // 8, 'big')
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def _rs256(text):
    """PKCS #1 1.5 (RFC 8017, 9.2)."""
    known = bytes.fromhex('3031300d060960864801650304020105000420') + hashlib.sha256(text).digest()
    padded = b'\0\1' + b'\xff' * (256 - 3 - len(known)) + b'\0' + known
    return pow(int.from_bytes(padded, 'big'), EXPONENT, MODULUS).to_bytes(256, 'big')


def _add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % PRIME == 0:
        return None
    slope = (3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, PRIME) if a == b else (b[1] - a[1]) * pow(b[0] - a[0], -1, PRIME)
    x = (slope * slope - a[0] - b[0]) % PRIME
    return x, (slope * (a[0] - x) - a[1]) % PRIME


def _times(number, point):
    total = None
    while number:
        total, point, number = _add(total, point) if number & 1 else total, _add(point, point), number >> 1
    return total


def _es256(text):
    number = secrets.randbelow(ORDER - 1) + 1
    r = _times(number, BASE)[0] % ORDER
    s = pow(number, -1, ORDER) * (int.from_bytes(hashlib.sha256(text).digest(), 'big') + r * EC_SECRET) % ORDER
    return r.to_bytes(32, 'big') + s.to_bytes(32, 'big')


def rsa_key(**members):
    return {'kty': 'RSA', 'n': letters(MODULUS), 'e': letters(65537), 'kid': 'first', 'use': 'sig', **members}


def ec_key():
    x, y = _times(EC_SECRET, BASE)
    return {'kty': 'EC', 'crv': 'P-256', 'x': letters(x.to_bytes(32, 'big')), 'y': letters(y.to_bytes(32, 'big')),
            'kid': 'curve'}


def sign(head, claims, forged=None):
    """`forged`: claims in the place of those that were signed."""
    text = f'{letters(head)}.{letters(claims)}'.encode()
    signature = {'RS256': _rs256, 'ES256': _es256, 'none': lambda _: b'',
                 # The trick: the public key as a shared secret.
                 'HS256': lambda text: hmac.digest(letters(MODULUS).encode(), text, 'sha256')}[head['alg']](text)
    text = text if forged is None else f'{letters(head)}.{letters(forged)}'.encode()
    return f'{text.decode()}.{letters(signature)}'


class Provider:
    """`codes`: of each code, what allow() was given, until it is used. `files`: certificate and key, for TLS."""

    def __init__(self, files=None):
        self.codes, self.requests, self.keys = {}, [], [rsa_key(), ec_key()]
        self.forged_claims = None
        self.answer = None  # to a request for a token: status and value, in the place of the right one
        self.methods = None  # by which a client shows its secret
        self.hangs = threading.Event()  # set: a request for a token is not answered before `goes_on`
        self.goes_on = threading.Event()
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *_):
                pass

            def _answer(self, status, value):
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                if status == 302:
                    self.send_header('Location', '/elsewhere')
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                provider.requests.append(self.path)
                if self.path.startswith('/authorize?'):
                    code, asked = provider.allow(self.path)
                    self.send_response(302)
                    self.send_header('Location', f'{asked["redirect_uri"]}?code={code}&state={asked["state"]}&unknown=1')
                    self.send_header('Content-Length', '0')
                    self.end_headers()
                    return
                documents = {'/.well-known/openid-configuration': provider.configuration(),
                             '/keys': {'keys': provider.keys}}
                self._answer(200 if self.path in documents else 404, documents.get(self.path, {}))

            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length'])).decode()
                provider.requests.append(self.path)
                if provider.hangs.is_set():
                    provider.goes_on.wait(60)
                self._answer(*provider.exchange(dict(urllib.parse.parse_qsl(body)), self.headers['Authorization']))

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a node that stops reads no answer
        self.issuer = f'http{"s" if files else ""}://127.0.0.1:{self.server.server_port}'
        if files:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*files)
            # The thread of a connection greets, so that a client which refuses the certificate ends no other thread.
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def configuration(self):
        methods = {} if self.methods is None else {'token_endpoint_auth_methods_supported': self.methods}
        return {'issuer': self.issuer, 'authorization_endpoint': f'{self.issuer}/authorize?tenant=1',
                'token_endpoint': f'{self.issuer}/token', 'jwks_uri': f'{self.issuer}/keys', **methods}

    def allow(self, location, head=None, **claims):
        """What the page of the provider does: a code for the address to which the browser was led."""
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(location).query))
        code = secrets.token_urlsafe(16)
        self.codes[code] = (asked, head or {'alg': 'RS256', 'kid': 'first'}, claims)
        return code, asked

    def exchange(self, form, authorization):
        pair = f'{urllib.parse.quote(CLIENT, safe="")}:{urllib.parse.quote(SECRET, safe="")}'
        if self.answer is not None:
            return self.answer
        is_basic = self.methods is None and authorization == 'Basic ' + base64.b64encode(pair.encode()).decode()
        is_post = self.methods is not None and authorization is None and form.get('client_secret') == SECRET
        if not is_basic and not is_post:
            return 401, {'error': 'invalid_client'}
        asked, head, claims = self.codes.pop(form.get('code'), ({}, None, None))
        proof = letters(hashlib.sha256(form.get('code_verifier', '').encode()).digest())
        if head is None or proof != asked['code_challenge'] or form.get('redirect_uri') != asked['redirect_uri']:
            return 400, {'error': 'invalid_grant', 'error_description': f'wrong: {form.get("code")}'}
        now = int(time.time())
        whole = {'iss': self.issuer, 'aud': CLIENT, 'sub': '1234', 'exp': now + 300, 'iat': now, 'nonce': asked['nonce'],
                 'email': 'ada@example.com', 'email_verified': True, 'groups': ['support', 'acme-team'], **claims}
        whole = {name: value for name, value in whole.items() if value is not None}
        whole.setdefault('access', {'groups': whole.get('groups')})
        forged = None if self.forged_claims is None else {**whole, **self.forged_claims}
        return 200, {'token_type': 'Bearer', 'access_token': 'x', 'id_token': sign(head, whole, forged)}

    def close(self):
        self.goes_on.set()
        self.server.shutdown()
        self.server.server_close()
