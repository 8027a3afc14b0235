"""No message carries a secret; other text stays readable."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.errors import AdapterError, NotFound, OptionError, reason
from lakekeeper.redaction import names_a_secret, redacted
from tests.linear import assert_linear

VALUE = "hunter2-Zq9/x"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n-I9P"


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"jdbc:postgresql://db/meta?user=a&password={VALUE}&ssl=1", "jdbc:postgresql://db/meta?user=a&password=***&ssl=1"),
        (f"jdbc:sqlserver://db;databaseName=m;password={VALUE};x=1", "jdbc:sqlserver://db;databaseName=m;password=***;x=1"),
        ("jdbc:oracle:thin:scott/tiger@db:1521", "jdbc:oracle:thin:***@db:1521"),
        (f"https://user:{VALUE.replace('/', '')}@catalog/v1/config", "https://***@catalog/v1/config"),
        (f"abfss://user:{VALUE}@a.dfs.core.windows.net/t", "abfss://***@a.dfs.core.windows.net/t"),
        (f"abfss://c@a.net/t,https://u:{VALUE}@h/x", "abfss://c@a.net/t,https://***@h/x"),
        ("s3a://key@bucket/t", "s3a://***@bucket/t"),
        (
            f"https://a.blob.core.windows.net/c/f?sv=2022&sig={VALUE}&se=1",
            "https://a.blob.core.windows.net/c/f?sv=2022&sig=***&se=1",
        ),
        (
            f"GET https://b.s3.amazonaws.com/k?X-Amz-Credential={VALUE}&X-Amz-Signature={VALUE}",
            "GET https://b.s3.amazonaws.com/k?X-Amz-Credential=***&X-Amz-Signature=***",
        ),
        (f"Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.{VALUE.replace('/', '')}", "Authorization: Bearer ***"),
        (f'{{"access_token": "{VALUE}", "n": 1}}', '{"access_token": "***", "n": 1}'),
        (f"fs.azure.account.key.a.dfs.core.net = {VALUE}", "fs.azure.account.key.a.dfs.core.net = ***"),
        (f"spark.hadoop.fs.s3a.secret.key={VALUE}, region=eu", "spark.hadoop.fs.s3a.secret.key=***, region=eu"),
        ("the key AKIAIOSFODNN7EXAMPLE was refused", "the key *** was refused"),
        (f"401 for {JWT}: expired", "401 for ***: expired"),
        (f"[{JWT}], /x/{JWT}.", "[***], /x/***."),
        ("got SharedKey acct:Zq9/x+w== for GET", "got SharedKey acct:*** for GET"),
        ("got sharedkeylite acct:Zq9/x+w==, expected none", "got sharedkeylite acct:***, expected none"),
        ("jdbc:sqlserver://h;user=a;password={Q7@0}}7Q};x=1", "jdbc:sqlserver://h;user=a;password={***};x=1"),
        ("jdbc:sqlserver://h:1433;password={Q7@0/7Q}", "jdbc:sqlserver://h:1433;password={***}"),
        ("jdbc:sqlserver://a:Q7@h;x=1", "jdbc:sqlserver://***@h;x=1"),
        ("{Authorization=[Bearer abcdef123], Host=[x]}", "{Authorization=[***], Host=[x]}"),
        ("{Authorization=[Basic dXNlcjpwYXNz]}", "{Authorization=[***]}"),
        ("{Host=[x], Set-Cookie=[a=1; b=[2], c=3], Via=[y]}", "{Host=[x], Set-Cookie=[***], Via=[y]}"),
        ("{Host=[x], Authorization=[Digest Zq9", "{Host=[x], Authorization=[***"),
        ("Authorization:[Bearer abcdef123], Host:[x]", "Authorization:[***], Host:[x]"),
        ("password=[x]Zq9, a=(b); pwd=()Zq9; sig=[],Zq9", "password=***, a=(b); pwd=***; sig=***"),
        ("Basic client_secret = Zq9x, Bearer my_token: Zq9x", "Basic *** = ***, Bearer ***: ***"),
        ("token: [Zq9, x7], Host: [x]", "token: [***], Host: [x]"),
        ("{'Authorization': ['Digest Zq9]x'], 'Host': ['x']}", "{'Authorization': [***], 'Host': ['x']}"),
        ('{"credentials": {"user": "a", "keys": {"x": "Zq9"}}, "n": 1}', '{"credentials": {***}, "n": 1}'),
        ("Authorization=Token abcdef", "Authorization=Token ***"),
        ("Authorization=ApiKey abcdef", "Authorization=ApiKey ***"),
        ("Authorization=Bearer abcdef123 Host=x", "Authorization=Bearer *** Host=x"),
        ("Authorization=Bearer Bearer abcdef123", "Authorization=Bearer *** ***"),
        ("Authorization=SharedKey acct:Zq9/x+w==", "Authorization=*** acct:***"),
        ("password=token region=eu", "password=*** region=eu"),
    ],
)  # fmt: skip
def test_secrets_are_hidden(text: str, expected: str) -> None:
    assert redacted(text) == expected
    assert redacted(expected) == expected
    assert str(AdapterError(text)) == expected
    assert str(NotFound("db.t", text)) == f"db.t: {expected}"
    assert reason(RuntimeError(text)) == f"RuntimeError: {expected}"


@pytest.mark.parametrize(
    "end, after",
    [("", ""), ("-----END PRIVATE KEY-----", ""), ("-----END PRIVATE KEY-----\nregion=eu", "\nregion=eu")],
)
@pytest.mark.parametrize(
    "name", ["private.key=", "private.key = ", "private_key: ", "x.token: ", "--private-key "]
)
def test_a_private_key_is_hidden_to_its_last_line(name: str, end: str, after: str) -> None:
    text = f"{name}-----BEGIN PRIVATE KEY-----\nMIIEvQ\nZq9x\n{end}"
    assert redacted(text) == f"{name}***{after}"
    assert redacted(redacted(text)) == redacted(text)
    assert str(AdapterError(text)) == redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "db.t: snapshot 7152 is no ancestor of the current one",
        "s3a://bucket/t/day=2026-11-23/part-00000.parquet was not found",
        "Basic authentication is not supported by this catalog",
        "the token is expired: ask for another",
        "k = 5 AND author@example.org is what the predicate says",
        "commit.retry.num-retries: got 'x', expected a whole number",
        "bucket(16, k)=3/part.parquet",
        "token_count > 3 AND password IS NULL AND secret <> 5",
        "SELECT token, max(secret) FROM db.tokens JOIN db.passwords USING (k) GROUP BY token",
        "ALTER TABLE db.tokens CLUSTER BY (private_id, key, token)",
        "ice.db.tokens: snapshot 7152 is no ancestor of the current one",
        "NotFound: db.access_tokens: no such Iceberg table",
        "InvalidTokenException: expired",
        "ExpiredToken: The provided token has expired",
        "struct<id:bigint,token:string,secret:array<int>>",
        "the cluster key: got 'x', expected a column",
        "http://nessie:19120/iceberg/main@abc was not found",
        "s3a://bucket/t/mail=a@b/part-0.parquet",
        "abfss://sales@acct.dfs.core.windows.net/db/t/mail=a@b: no such path",
        "delta.`ABFS://sales@acct.dfs.core.windows.net:443/db/t`",
        "wasbs://$root@acct.blob.core.windows.net: 404, wasb://c@acct/t",
        "eyJ.parquet, eyJhbGciOiJIUzI1NiJ9 and a.eyJhbGci.b",
        "SharedKey authorization is not permitted: use another",
        "the authorization token is expired; {Cookie=[], Host=[x]}",
        "Basic checks failed; the bearer of the name is unknown; a Bearer token was refused",
    ],
)
def test_text_without_a_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_url_that_pathlib_has_shortened_and_a_delegation_token() -> None:
    assert redacted("got 's3a:/AKID:pw/x@b/x'") == "got 's3a:/***@b/x'"
    assert redacted("webhdfs://nn/t?op=OPEN&delegation=AbC") == "webhdfs://nn/t?op=OPEN&delegation=***"
    assert redacted("file:/a/b:c@d and s3:/b/t") == "file:/a/b:c@d and s3:/b/t"


def test_the_value_of_a_secret_conf_is_not_shown() -> None:
    error = OptionError(
        "spark.sql.catalog.ice.jdbc.password", VALUE, "a conf that can be set while Spark runs"
    )
    assert VALUE not in str(error)
    assert str(error).startswith("spark.sql.catalog.ice.jdbc.password: got '***', expected ")
    assert error.value == VALUE


@pytest.mark.parametrize(
    "key",
    [
        *("credential", "spark.sql.catalog.r.token", "fs.s3a.access.key", "header.Api-Key", "sas", "sig"),
        *("s3.sse.key", "spark.hadoop.fs.s3a.encryption.key", "fs.gs.auth.service.account.private.key"),
        *(
            "fs.azure.sas.container.account",
            "spark.sql.catalog.r.header.Authorization",
            "keystore.passphrase",
        ),
        *(
            "gcs.decryption-key",
            "fs.azure.encryption.encoded.client-provided-key",
            "parquet.encryption.master.keys",
        ),
        "adls.connection-string.account",
    ],
)
def test_names_of_secrets(key: str) -> None:
    assert names_a_secret(key)


@pytest.mark.parametrize(
    "key", ["cluster-by", "key", "kms.key-id", "encryption.key-id", "design", "sash", "primary.key"]
)
def test_names_of_other_options(key: str) -> None:
    assert not names_a_secret(key)


_NAMES = st.sampled_from(
    ["password", "PASSWD", "my.jdbc.pwd", "client_secret", "s3.secret-access-key", "fs.s3a.encryption.key",
     "fs.azure.account.key.a.dfs", "X-Auth-Token", "passphrase", "x_api_key", "sig", "Authorization"]
)  # fmt: skip
_SOLID = "abzXY019+/=.~-_"  # characters of a secret in any form
_MORE = ",)]};(:@#!$*|^?<{["  # and those that end other texts
_QUOTED = " \t\\'\"&"


def _secret(characters: str) -> st.SearchStrategy[str]:
    """A secret that has more than punctuation at its end, and that does not occur elsewhere."""
    return st.text(characters, max_size=20).map(lambda text: f"Q7{text}7Q")


def _escaped(secret: str, times: int) -> str:
    for _ in range(times):
        secret = json.dumps(secret)[1:-1]
    return secret


@given(name=_NAMES, secret=_secret(_SOLID + _MORE))
@example(name="fs.s3a.encryption.key", secret="Q7://7Q")  # noqa: S106 - made up, and found by this test
@pytest.mark.parametrize(
    "form",
    [
        "jdbc:postgresql://db/meta?user=a&{name}={secret}&ssl=1",
        "?{name}={secret}",
        "{name}={secret}",
        "{name} = {secret}",
        "{name}: {secret}",
        "x: 1\n  {name}: {secret}\ny: 2",
        "GET failed: {name}: {secret}",
        "Map(a -> b, {name} -> {secret})",
        "Map({name} -> {secret}, a -> b)",
        "submit --{name} {secret} --x",
        "submit --{name}={secret} --x",
        "{name}=>{secret}",
        "{name}: Bearer {secret}",
        "Authorization=Token {secret}",
        "Bearer {secret}",
        "-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----",
        "{name}=-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----",
        "{name}: -----BEGIN RSA PRIVATE KEY-----\n{secret}",
    ],
)
def test_no_secret_survives(form: str, name: str, secret: str) -> None:
    if form == "Bearer {secret}":
        secret = "".join(c for c in secret if c in _SOLID + "Q7")
    # Without quotes, ``,name=`` and ``;name=`` begin the next option.
    if "=" in secret and any(c in secret for c in ",;"):
        secret = secret.replace("=", "")
    if "->" in form:
        secret = secret.replace(",", "")
    _assert_hidden(form.format(name=name, secret=secret), secret)


@given(name=_NAMES, secret=_secret(_SOLID + "(){}:@#!$*|^?<, \t;"))
@pytest.mark.parametrize("scheme", ["", "Bearer ", "Basic ", "Digest ", "Token ", "[a], "])
def test_no_secret_in_brackets_survives(scheme: str, name: str, secret: str) -> None:
    hidden = _assert_hidden(f"GET {{{name}=[{scheme}{secret}], Host=[x]}}", secret)
    assert hidden == f"GET {{{name}=[***], Host=[x]}}"


@given(name=_NAMES, secret=_secret(_SOLID + _MORE + _QUOTED))
@pytest.mark.parametrize("times", [1, 2, 3])
def test_no_secret_in_a_list_in_json_survives(times: int, name: str, secret: str) -> None:
    text, rest = json.dumps({name: ["a", secret, {"x": [secret]}], "b": ["c"]}), '"b": ["c"]'
    for _ in range(times - 1):
        text, rest = json.dumps(text), json.dumps(rest)[1:-1]
    hidden = redacted(text)
    assert _escaped(secret, times) not in hidden
    assert rest in hidden


@given(name=_NAMES, secret=_secret(_SOLID + _MORE + _QUOTED))
@pytest.mark.parametrize("times", [1, 2, 3])
def test_no_secret_in_json_survives(times: int, name: str, secret: str) -> None:
    text = json.dumps({"a": 1, name: secret, "b": "c"})
    for _ in range(times - 1):
        text = json.dumps(text)
    hidden = redacted(text)
    assert _escaped(secret, times) not in hidden
    found: Any = hidden
    for _ in range(times):  # it can still be read
        found = json.loads(found)
    assert found == {"a": 1, name: "***", "b": "c"}


@given(name=_NAMES, secret=_secret(_SOLID + _MORE + " \t&"), q=st.sampled_from("'\""))
@pytest.mark.parametrize(
    "form",
    [
        "OPTIONS (url 'x', {q}{name}{q} {q}{secret}{q}, a 'b')",
        "OPTIONS ({name} {q}{secret}{q})",
        "TBLPROPERTIES ({q}{name}{q} = {q}{secret}{q}, 'a' = 'b')",
        "CALL p({name} => {q}{secret}{q})",
        "({q}{name}{q}, {q}{secret}{q})",
        "{name}={q}{secret}{q}",
        "{q}{name}{q}: {q}{secret}{q}",
        "{name}: {q}{secret}{q}",
        "{q}{name}{q} -> {q}{secret}{q}",
        "--{name} {q}{secret}{q}",
    ],
)
def test_no_quoted_secret_survives(form: str, q: str, name: str, secret: str) -> None:
    _assert_hidden(form.format(name=name, secret=secret, q=q), secret)


@given(name=_NAMES, secret=_secret(_SOLID + _MORE + _QUOTED))
def test_no_secret_with_quotes_survives(name: str, secret: str) -> None:
    spark = secret.replace("\\", "\\\\").replace("'", "\\'")
    _assert_hidden(f"OPTIONS ({name} '{spark}')", spark)
    ansi = secret.replace("\\", "").replace("'", "''")
    _assert_hidden(f"'{name}' = '{ansi}', 'a' = 'b'", ansi)
    braces = secret.replace("}", "}}")
    _assert_hidden(f"jdbc:sqlserver://h;user=a;{name}={{{braces}}};x=1", braces)


@given(secret=_secret(_SOLID + ",)]}(:@#!$*|^?<{["))
@pytest.mark.parametrize(
    "form", ["https://user:{}@host/x", "jdbc:oracle:thin:scott/{}@db:1521", "jdbc:mysql://root:{}@h/db"]
)
def test_no_password_of_a_url_survives(form: str, secret: str) -> None:
    hidden = _assert_hidden(form.format(secret), secret)
    assert hidden.endswith(form.partition("}")[2])


@given(name=_NAMES, secret=_secret("abzXY019.~-_"))
def test_no_secret_in_an_encoded_url_survives(name: str, secret: str) -> None:
    hidden = _assert_hidden(f"https://h/?u=x%26{name}%3D{secret}%2B%3D%26a%3D1", secret)
    assert hidden == f"https://h/?u=x%26{name}%3D***%26a%3D1"


def _assert_hidden(text: str, secret: str) -> str:
    hidden = redacted(text)
    assert secret not in hidden, hidden
    assert secret[2:-2] not in hidden or len(secret) < 12, hidden
    assert "***" in hidden
    assert redacted(hidden) == hidden
    return hidden


_PIECES = (
    *(
        "a",
        "token",
        "token ",
        "token=",
        "token=,",
        "token=;",
        "token: ",
        "'token':",
        "token -> ",
        "token,",
        "token{",
        "password={",
    ),
    *("token='\\", "://", "://a@", "://a:", "@", "jdbc:oracle:a:", "Bearer ", "-----BEGIN PRIVATE KEY"),
    *(
        "eyJ",
        "eyJhbGciOiJ9",
        "eyJhbGciOiJ9.",
        "eyJ-",
        "SharedKey ",
        "SharedKey a:",
        "sqlserver://",
        "sqlserver://;@",
    ),
    *("\\", "'", ";a", ",a", ", ", " ", "-", "access.", "%3D", "="),
    *("token=[", "token=[]", "token=[a]", "token=['", "token=(", "token: [", "token: [a]", "token:["),
    *("'token':[", "'token':{", "'token':{'", "[", "]", "Basic ", "authorization=Token "),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----***", "-----END PRIVATE KEY-----"),
)


@pytest.mark.parametrize("piece", _PIECES)
@pytest.mark.parametrize("start", ["", "password=", "password -> ", "'password' '"])
def test_a_long_text_is_read_once(start: str, piece: str) -> None:
    assert_linear(redacted, lambda n: start + piece * (n // len(piece)))


def test_a_long_property_is_ignored_in_short_time() -> None:
    def resolved(text: str) -> None:
        assert len(resolve(properties={"lakekeeper.auto.verbs": text}, lenient=True).ignored) == 1

    assert_linear(resolved, lambda n: "a" * n)


def test_a_long_text_is_cut_after_its_secrets_are_hidden() -> None:
    error = OptionError("verbs", "x" * 490 + f" https://user:{'S' * 100_000}@host", "a verb")
    assert len(str(error)) < 1_000
    assert "SS" not in str(error)
    assert len(str(error.value)) > 100_000
    assert len(str(AdapterError("x " * 100_000))) < 11_000
    assert len(reason(RuntimeError("x " * 100_000))) < 11_000
