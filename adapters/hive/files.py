"""The file system under a Hive warehouse (a local disk, HDFS), through the Hadoop client that Spark brings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LocalFiles:
    """Read-only files of this machine, without Spark."""

    def names(self, folder: str) -> list[str]:
        """Lists a folder, sorted; nothing where there is no such folder."""
        place = Path(folder)
        return sorted(path.name for path in place.iterdir()) if place.exists() else []

    def read(self, place: str) -> bytes:
        """Returns a file's bytes."""
        return Path(place).read_bytes()


class Files:
    """Files under a warehouse.  Places are URIs or absolute paths.  Raises Py4JJavaError with what the file system
    says.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._hadoop = jvm.org.apache.hadoop.fs
        self._settings: Any = spark._jsc.hadoopConfiguration()
        gateway: Any = spark.sparkContext._gateway
        self._no_options = gateway.new_array(self._hadoop.Options.Rename, 0)

    def names(self, folder: str) -> list[str]:
        """Lists a folder, sorted; nothing where there is no such folder."""
        path, system = self._at(folder)
        if not system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(path))

    def read(self, place: str) -> bytes:
        """Returns a file's bytes.  Raises OSError."""
        from py4j.protocol import Py4JJavaError

        path, system = self._at(place)
        try:
            stream = system.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise OSError(str(error.java_exception)) from error

    def publish(self, place: str, content: bytes) -> bool:
        """Writes a file, whole or not at all.  Returns False where a file of that name exists."""
        from py4j.protocol import Py4JJavaError

        path, _ = self._at(place)
        draft = self._drafted(f"{place}.draft", content)
        try:
            context = self._hadoop.FileContext.getFileContext(path.toUri(), self._settings)
            context.rename(draft, path, self._no_options)
        except Py4JJavaError as error:
            if "AlreadyExists" in error.java_exception.getClass().getName():
                return False
            raise
        return True

    def _drafted(self, place: str, content: bytes) -> Any:
        path, system = self._at(place)
        stream = system.create(path, True)
        stream.write(content)
        stream.hsync()
        stream.close()
        return path

    def upload(self, local: Path, place: str) -> None:
        """Moves the file."""
        path, system = self._at(place)
        system.copyFromLocalFile(True, True, self._hadoop.Path(local.as_uri()), path)

    def download(self, place: str, local: Path) -> Path:
        """Copies a folder to this machine."""
        path, system = self._at(place)
        system.copyToLocalFile(False, path, self._hadoop.Path(local.as_uri()), True)
        return local

    def make(self, folder: str) -> str:
        """Makes a folder where it is missing, and returns its place."""
        path, system = self._at(folder)
        system.mkdirs(path)
        return folder

    def size(self, place: str) -> int:
        """Returns the bytes of a file or of all files in a folder."""
        path, system = self._at(place)
        return int(system.getContentSummary(path).getLength())

    def held(self, place: str) -> int | None:
        """Returns the bytes of all files in a folder; None where there is no such folder."""
        path, system = self._at(place)
        return self.size(place) if system.exists(path) else None

    def remove(self, place: str) -> None:
        """Removes a file or a folder."""
        path, system = self._at(place)
        system.delete(path, True)

    def _at(self, place: str) -> tuple[Any, Any]:
        path = self._hadoop.Path(place)
        return path, path.getFileSystem(self._settings)
