"""No message carries a secret; other text stays readable."""

from __future__ import annotations

import pytest

from lakekeeper.errors import AdapterError, NotFound, OptionError, reason
from lakekeeper.redaction import names_a_secret, redacted

VALUE = "hunter2-Zq9/x"


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"jdbc:postgresql://db/meta?user=a&password={VALUE}&ssl=1", "jdbc:postgresql://db/meta?user=a&password=***&ssl=1"),
        (f"jdbc:sqlserver://db;databaseName=m;password={VALUE};x=1", "jdbc:sqlserver://db;databaseName=m;password=***;x=1"),
        ("jdbc:oracle:thin:scott/tiger@db:1521", "jdbc:oracle:thin:***@db:1521"),
        (f"https://user:{VALUE.replace('/', '')}@catalog/v1/config", "https://***@catalog/v1/config"),
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
    ],
)  # fmt: skip
def test_secrets_are_hidden(text: str, expected: str) -> None:
    assert redacted(text) == expected
    assert redacted(expected) == expected
    assert str(AdapterError(text)) == expected
    assert str(NotFound("db.t", text)) == f"db.t: {expected}"
    assert reason(RuntimeError(text)) == f"RuntimeError: {expected}"


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
    ],
)
def test_text_without_a_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_the_value_of_a_secret_conf_is_not_shown() -> None:
    error = OptionError(
        "spark.sql.catalog.ice.jdbc.password", VALUE, "a conf that can be set while Spark runs"
    )
    assert VALUE not in str(error)
    assert str(error).startswith("spark.sql.catalog.ice.jdbc.password: got '***', expected ")
    assert error.value == VALUE


@pytest.mark.parametrize(
    "key", ["credential", "spark.sql.catalog.r.token", "fs.s3a.access.key", "header.Api-Key"]
)
def test_names_of_secrets(key: str) -> None:
    assert names_a_secret(key)
    assert not names_a_secret("cluster-by")
