"""What columnar workers learn from the S3 client of a session, and the settings that they do not follow."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.core.model.file_merge import S3
from lakekeeper.spark.s3_access import NotFollowed, of_s3_file_io, of_s3a

SECRET, TOKEN = "zz-secret", "zz-token"
DEFAULTS = {"endpoint": "", "connection.maximum": "500", "acl.default": "", "proxy.host": ""}


def client(*, endpoint: str = "", region: str = "eu-west-1", token: str = "") -> Any:
    """A client of the AWS SDK."""
    kind = "AwsSessionCredentials" if token else "AwsBasicCredentials"
    credentials = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getSimpleName=lambda: kind),
        accessKeyId=lambda: "AKIA",
        secretAccessKey=lambda: SECRET,
        sessionToken=lambda: token,
    )
    given = SimpleNamespace(
        isPresent=lambda: bool(endpoint), get=lambda: SimpleNamespace(toString=lambda: endpoint)
    )
    conf = SimpleNamespace(
        endpointOverride=lambda: given,
        region=lambda: SimpleNamespace(id=lambda: region),
        credentialsProvider=lambda: SimpleNamespace(resolveCredentials=lambda: credentials),
    )
    return SimpleNamespace(serviceClientConfiguration=lambda: conf)


def s3a(settings: Mapping[str, str], *, made: Any = None, hadoop: str = "3.4.2") -> S3:
    """The S3 of an S3AFileSystem with these settings."""

    def conf(values: Mapping[str, str]) -> Any:
        return SimpleNamespace(addResource=lambda _: None, getPropsWithPrefix=lambda _: values)

    statics = {"getVersion": lambda: hadoop, "propagateBucketOptions": lambda given, _: given}
    jvm: Any = SimpleNamespace(
        static=lambda _, method: statics[method],
        text_map=dict,
        view=SimpleNamespace(
            org=SimpleNamespace(
                apache=SimpleNamespace(
                    hadoop=SimpleNamespace(
                        conf=SimpleNamespace(Configuration=lambda _: conf(DEFAULTS)),
                    )
                )
            )
        ),
    )
    internals = SimpleNamespace(getAmazonS3Client=lambda _: made or client())
    files = SimpleNamespace(getConf=lambda: conf({**DEFAULTS, **settings}), getS3AInternals=lambda: internals)
    return of_s3a(jvm, files, "lake")


def test_the_credentials_are_those_of_the_client_and_are_not_shown() -> None:
    found = of_s3_file_io(client(token=TOKEN), {"s3.access-key-id": "ignored", "warehouse": "s3://lake"})
    assert found == S3("AKIA", SECRET, TOKEN, "eu-west-1")
    assert not any(text in repr(found) for text in ("AKIA", SECRET, TOKEN))


def test_another_server_is_reached_as_the_client_does() -> None:
    server = client(endpoint="http://store:9000")
    found = of_s3_file_io(server, {"s3.path-style-access": "true"})
    assert (found.endpoint, found.encrypted, found.path_style) == ("store:9000", False, True)
    found = s3a({"endpoint": "https://store"}, made=client(endpoint="https://store"))
    assert (found.endpoint, found.encrypted, found.path_style) == ("store", True, False)
    with pytest.raises(NotFollowed, match="path"):
        of_s3_file_io(client(endpoint="http://store/s3"), {})


def test_the_region_is_that_of_the_bucket_where_s3a_asks_any() -> None:
    assert s3a({}).region == ""
    assert s3a({"endpoint.region": "eu-west-1"}).region == "eu-west-1"
    assert of_s3_file_io(client(), {}).region == "eu-west-1"


@pytest.mark.parametrize(
    "name, value",
    [
        ("s3.sse.type", "s3"),
        ("s3.acl", "bucket-owner-full-control"),
        ("s3.access-points.lake", "arn:aws:s3:us-east-1:1:accesspoint/x"),
        ("s3.remote-signing-enabled", "true"),
        ("s3.write.storage-class", "GLACIER_IR"),
        ("s3.write.tags.team", "x"),
        ("client.factory", "com.example.Factory"),
        ("http-client.proxy-endpoint", "http://proxy:3128"),
        ("s3.of-a-later-release", "x"),
    ],
)
def test_settings_of_s3_file_io_that_are_not_followed(name: str, value: str) -> None:
    with pytest.raises(NotFollowed, match=name):
        of_s3_file_io(client(), {name: value})
    of_s3_file_io(client(), {name: "false"})


@pytest.mark.parametrize(
    "name, value",
    [
        ("encryption.algorithm", "SSE-KMS"),
        ("server-side-encryption-algorithm", "AES256"),
        ("acl.default", "BucketOwnerFullControl"),
        ("accesspoint.arn", "arn:aws:s3:us-east-1:1:accesspoint/x"),
        ("create.storage.class", "glacier_ir"),
        ("create.header.Cache-Control", "x"),
        ("requester.pays.enabled", "true"),
        ("endpoint.fips", "true"),
        ("proxy.host", "proxy"),
        ("custom.signers", "A:B"),
        ("of.a.later.release", "x"),
    ],
)
def test_settings_of_s3a_that_are_not_followed(name: str, value: str) -> None:
    with pytest.raises(NotFollowed, match=rf"fs\.s3a\.{name}"):
        s3a({name: value})


def test_settings_of_s3a_that_change_no_object_are_followed() -> None:
    s3a(
        {
            "connection.maximum": "10",
            "bucket.other.acl.default": "x",
            "multipart.size": "64M",
            "acl.default": "",
        }
    )


def test_an_older_hadoop_is_not_followed() -> None:
    with pytest.raises(NotFollowed, match=r"Hadoop 3\.3\.4"):
        s3a({}, hadoop="3.3.4")
