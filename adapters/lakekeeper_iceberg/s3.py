"""S3FileIO's client, and a conditional put by it: S3FileIO itself looks for an object and then puts it."""

from __future__ import annotations

from typing import Any

from lakekeeper_iceberg.handles import BulkJvm

_S3 = "org.apache.iceberg.aws.s3."
_PUT = "software.amazon.awssdk.services.s3.model.PutObjectRequest"


def is_s3(file: Any) -> bool:
    """Whether an OutputFile is one of S3FileIO, which a ResolvingFileIO also makes."""
    return str(file.getClass().getName()) == f"{_S3}S3OutputFile"


def client(jvm: BulkJvm, file: Any) -> Any:
    """The S3Client of an S3OutputFile."""
    return jvm.hidden_call(file, f"{_S3}BaseS3File", "client")


def put_once(jvm: BulkJvm, file: Any, data: bytes) -> None:
    """Put the object of an S3OutputFile, encrypted and permitted as S3FileIO does. Raises if the object exists."""
    place = jvm.hidden_call(file, f"{_S3}BaseS3File", "uri")
    given = jvm.hidden_call(file, f"{_S3}BaseS3File", "s3FileIOProperties")
    request = jvm.static(_PUT, "builder")().bucket(place.bucket()).key(place.key()).ifNoneMatch("*")
    for configure in ("configureEncryption", "configurePermission"):
        arguments = ((f"{_S3}S3FileIOProperties", given), (f"{_PUT}$Builder", request))
        jvm.hidden_call(None, f"{_S3}S3RequestUtil", configure, *arguments)
    body = jvm.static("software.amazon.awssdk.core.sync.RequestBody", "fromBytes")(bytearray(data))
    client(jvm, file).putObject(request.build(), body)
