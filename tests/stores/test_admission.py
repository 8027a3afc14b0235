"""REST catalogs on S3 that authenticate clients: by a token, by OAuth, and by AWS's signature (SigV4).

The confs are those of Iceberg; lakekeeper reaches the catalog by Spark's client alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import AdapterError
from tests.oracles.admission import with_signature, with_token
from tests.oracles.rest_catalog import rest_catalog
from tests.stores.bucket import KEYS, LAKE, REGION, Bucket, pyiceberg_properties
from tests.stores.faulty_s3 import FaultyS3
from tests.stores.kinds import Kind
from tests.stores.outcomes import Outcomes
from tests.stores.rows import NOW, filled, same_rows
from tests.stores.session import configured, rest_catalog_confs

SECRET = "0f3a-not-for-logs"  # noqa: S105 - of the tests
OTHER = "0f3a-a-wrong-one"
ADMITTED: dict[str, dict[str, Any]] = {
    "token": {"admits": with_token(SECRET)},
    "OAuth": {"credential": f"lakekeeper:{SECRET}"},
    "SigV4": {"admits": with_signature(KEYS["access"], SECRET)},
}
"""How to start a server with this kind of authentication."""


def confs(how: str, secret: str, address: str) -> dict[str, str]:
    """The confs of a user for a catalog at an address with this kind of authentication."""
    if how == "SigV4":
        return {
            "rest.auth.type": "sigv4",
            "rest.auth.sigv4.delegate-auth-type": "none",
            "rest.signing-region": REGION,
            "rest.access-key-id": KEYS["access"],
            "rest.secret-access-key": secret,
        }
    if how == "token":
        return {"token": secret}
    return {"credential": f"lakekeeper:{secret}", "oauth2-server-uri": f"{address}/v1/oauth/tokens"}


@pytest.mark.parametrize("how", ADMITTED)
def test_a_rest_catalog_that_authenticates(
    spark: SparkSession, bucket: Bucket, s3: FaultyS3, outcomes: Outcomes, tmp_path: Path, name: str, how: str
) -> None:
    catalog = f"auth_{how.lower()}"
    readable = pyiceberg_properties(bucket)
    with rest_catalog(
        tmp_path, warehouse=f"s3://{LAKE}/{catalog}", properties=readable, **ADMITTED[how]
    ) as address:
        own, other = (
            rest_catalog_confs(each, address, s3.address)
            | {f"spark.sql.catalog.{each}.{key}": value for key, value in confs(how, secret, address).items()}
            for each, secret in ((catalog, SECRET), (f"{catalog}_other", OTHER))
        )
        with configured(spark, catalog, own), configured(spark, f"{catalog}_other", other) as wrong:
            spark.sql(f"CREATE NAMESPACE {catalog}.db")
            table = filled(Kind("iceberg-rest", catalog, 2).table(spark, bucket, name))
            rows = table.spark_rows()
            report = table.table().recluster("k")
            assert report.commits == 1
            assert table.table().vacuum(**NOW).failed_files_count == 0
            found = same_rows(table, rows)
            with pytest.raises(AdapterError, match=wrong) as refused:
                lk.table(spark, f"{wrong}.db.{name}")
            assert "0f3a" not in f"{refused.value}{report}"
    outcomes["iceberg-rest", f"REST with {how}: recluster, vacuum"] = f"{found}; refused with a wrong one"
