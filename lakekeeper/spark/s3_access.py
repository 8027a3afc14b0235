"""How columnar workers reach S3 as a Java client of the session does: its endpoint, its region, and its credentials.

    S3A, S3FileIO ─► their S3Client ─► S3 (endpoint, region, credentials of now) ─► workers

The client has resolved the credentials, wherever they come from; workers look for none themselves. Temporary ones may
expire before a merge ends: it is then merged again by rows.

A client whose settings change what an object is, or how it may be read or written, is not followed: encryption,
permissions, proxies, access points. The settings that are known to change neither are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from lakekeeper.core.model.file_merge import S3
from lakekeeper.spark.jvm import Jvm

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_S3A = "fs.s3a."
_FIRST_WITH_SDK_2 = (3, 4)  # the version of Hadoop whose S3A uses the S3Client of version 2 of the AWS SDK
_PURPOSE = "lakekeeper"
_FOLLOWED_BY_S3A = (
    "access.key", "assumed.role.", "attempts.maximum", "aws.credentials.provider", "aws.credentials.provider.",
    "block.size", "buffer.dir", "change.detection.", "committer.", "connection.", "create.performance", "directory.",
    "downgrade.", "endpoint", "endpoint.region", "etag.checksum.", "executor.capacity", "experimental.",
    "fast.upload.", "impl", "impl.", "input.", "list.version", "max.total.tasks", "multiobjectdelete.",
    "multipart.purge", "multipart.purge.", "multipart.size", "multipart.threshold", "optimized.copy.",
    "paging.maximum", "path.style.access", "performance.", "prefetch.", "readahead.range", "retry.", "secret.key",
    "security.credential.provider.path", "session.token", "socket.", "threads.", "user.agent.prefix", "vectored.",
)  # fmt: skip
"""Settings of S3A without their prefix; those that end in a dot are the beginnings of several."""
_FOLLOWED_BY_S3_FILE_IO = (
    "client.assume-role.", "client.credentials-provider", "client.credentials-provider.",
    "client.refresh-credentials-enabled", "client.refresh-credentials-endpoint", "client.region", "s3.access-key-id",
    "s3.analytics-accelerator.", "s3.checksum-enabled", "s3.crt.", "s3.delete.", "s3.endpoint", "s3.multipart.",
    "s3.path-style-access", "s3.preload-client-enabled", "s3.retry.", "s3.secret-access-key", "s3.session-token",
    "s3.staging-dir",
)  # fmt: skip
_OF_S3_FILE_IO = ("s3.", "client.", "http-client.proxy")
# Hadoop's defaults of S3A by version: an XML file of 4,000 lines, which each group of a merge would parse again.
_defaults: dict[str, Mapping[str, str]] = {}


class NotFollowed(Exception):
    """Why workers cannot reach files as the client does; the message names no secret."""


def of_s3a(jvm: Jvm, files: Any, bucket: str) -> S3:
    """The S3 of an S3AFileSystem. Raises NotFollowed."""
    version = str(jvm.static("org.apache.hadoop.util.VersionInfo", "getVersion")())
    if tuple(int(part) for part in version.split(".")[:2]) < _FIRST_WITH_SDK_2:
        raise NotFollowed(f"workers do not read through S3A of Hadoop {version}")
    settings = _settings_of_s3a(jvm, files.getConf(), bucket, version)
    _follow(settings, _FOLLOWED_BY_S3A, _S3A)
    client = files.getS3AInternals().getAmazonS3Client(_PURPOSE)
    # Without either, S3A asks any region, which redirects it.
    found_by_bucket = not settings.get("endpoint") and not settings.get("endpoint.region")
    path_style = settings.get("path.style.access", "").lower() == "true"
    return _of_client(client, path_style=path_style, by_bucket=found_by_bucket)


def of_s3_file_io(client: Any, properties: Mapping[str, str]) -> S3:
    """The S3 of a client of Iceberg's S3FileIO with these properties. Raises NotFollowed."""
    own = {name: value for name, value in properties.items() if name.startswith(_OF_S3_FILE_IO)}
    _follow(own, _FOLLOWED_BY_S3_FILE_IO, "")
    return _of_client(
        client, path_style=own.get("s3.path-style-access", "").lower() == "true", by_bucket=False
    )


def _settings_of_s3a(jvm: Jvm, conf: Any, bucket: str, version: str) -> dict[str, str]:
    """Settings for a bucket that are not the defaults of this version of Hadoop, without their prefix."""
    effective = jvm.static("org.apache.hadoop.fs.s3a.S3AUtils", "propagateBucketOptions")(conf, bucket)
    if version not in _defaults:
        defaults = jvm.view.org.apache.hadoop.conf.Configuration(False)
        defaults.addResource("core-default.xml")
        _defaults[version] = jvm.text_map(defaults.getPropsWithPrefix(_S3A))
    known = _defaults[version]
    found = jvm.text_map(effective.getPropsWithPrefix(_S3A))
    return {
        name: value
        for name, value in found.items()
        if known.get(name) != value and not name.startswith("bucket.")
    }


def _follow(settings: Mapping[str, str], followed: tuple[str, ...], prefix: str) -> None:
    beginnings = tuple(each for each in followed if each.endswith("."))
    for name, value in sorted(settings.items()):
        known = name in followed or name.startswith(beginnings)
        if not known and value.strip().lower() not in ("", "false"):
            raise NotFollowed(f"workers do not follow {prefix}{name}")


def _of_client(client: Any, *, path_style: bool, by_bucket: bool) -> S3:
    conf = client.serviceClientConfiguration()
    given = conf.endpointOverride()
    endpoint = urlsplit(str(given.get().toString())) if given.isPresent() else None
    if endpoint is not None and endpoint.path.strip("/"):
        raise NotFollowed("workers do not follow an endpoint with a path")
    credentials = conf.credentialsProvider().resolveCredentials()
    temporary = str(credentials.getClass().getSimpleName()) == "AwsSessionCredentials"
    return S3(
        access_key=str(credentials.accessKeyId()),
        secret_key=str(credentials.secretAccessKey()),
        session_token=str(credentials.sessionToken()) if temporary else "",
        region="" if by_bucket else str(conf.region().id()),
        endpoint=endpoint.netloc if endpoint else "",
        encrypted=endpoint is None or endpoint.scheme != "http",
        path_style=path_style,
    )
