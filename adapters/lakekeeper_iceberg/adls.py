"""Creates a blob of ADLSFileIO with a conditional put: ADLSFileIO itself looks for the blob and then puts it."""

from __future__ import annotations

from typing import Any

from lakekeeper_iceberg.native import Iceberg

_ADLS = "org.apache.iceberg.azure.adlsv2."


def is_adls(file: Any) -> bool:
    """Whether an OutputFile is one of ADLSFileIO, which a ResolvingFileIO also makes."""
    return str(file.getClass().getName()) == f"{_ADLS}ADLSOutputFile"


def put_once(jvm: Iceberg, file: Any, data: bytes) -> None:
    """Put the blob of an ADLSOutputFile. Raises if the blob exists."""
    client = jvm.hidden_call(file, f"{_ADLS}BaseADLSFile", "fileClient")
    lake = jvm.view.com.azure.storage.file.datalake
    absent = lake.models.DataLakeRequestConditions().setIfNoneMatch("*")
    stream = client.getOutputStream(
        lake.options.DataLakeFileOutputStreamOptions().setRequestConditions(absent)
    )
    stream.write(bytearray(data))
    stream.close()  # the blob is there from now on; an error before leaves none
