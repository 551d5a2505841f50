"""Fetches jars from Maven Central with Maven into a folder of the cache; nothing is installed on the machine.

A pom names the versions, a lock file the SHA-256 of every jar that comes with them.  A jar that does not match is not
put in place, so what runs is what was locked.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tidelock.adapters.process.host import Missing, program

MAVEN_PACKAGE: Final = "maven"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class Jars(NamedTuple):
    """A set of jars.

    `name`: what they are, `mend`: what gets them, for messages.  `folder`: where they are, or will be, named after
    their version.
    """

    name: str
    pom: Path
    lock: Path
    folder: Path
    mend: str = "run `make servers`"

    def there(self) -> Path:
        """Returns the folder.  Raises Missing."""
        if not self.folder.exists():
            raise Missing(f"{self.name} not found in {self.folder.parent}: {self.mend}")
        return self.folder

    def verified(self) -> Path:
        """Returns the folder as `there` does, once each jar was read and compared with the lock.  Raises Missing."""
        folder = self.there()
        self._compare(folder)
        return folder

    def fetch(self) -> None:
        """Downloads and compares, then puts in place by a rename.  Raises Missing with what Maven said."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{self.folder.name}-", dir=self.folder.parent) as scratch:
            jars = Path(scratch) / "jars"
            shutil.copy(self.pom, Path(scratch) / "pom.xml")
            self._maven(Path(scratch), jars)
            self._compare(jars)
            jars.chmod(0o755)
            shutil.rmtree(self.folder, ignore_errors=True)
            jars.rename(self.folder)

    def _maven(self, scratch: Path, jars: Path) -> None:
        done = subprocess.run(
            [program("mvn", MAVEN_PACKAGE), "--batch-mode", "--quiet", _COPY, f"-DoutputDirectory={jars}"],
            cwd=scratch,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise Missing(f"Maven could not fetch {self.name}:\n{done.stdout.strip()}")

    def _compare(self, folder: Path) -> None:
        """Raises Missing unless the folder holds exactly the jars of the lock."""
        locked = {name: digest for digest, name in (line.split() for line in self.lock.read_text().splitlines())}
        found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        wrong = sorted(name for name in locked.keys() | found.keys() if locked.get(name) != found.get(name))
        if wrong:
            raise Missing(f"{self.name}: the jars are not those of {self.lock.name}: {', '.join(wrong)}")


def version_in(pom: Path, artifact: str) -> str:
    """Returns the version of the artifact (a regular expression) that a pom names."""
    found = re.search(rf"<artifactId>{artifact}</artifactId>\s*<version>(.+?)</version>", pom.read_text())
    assert found is not None, f"{pom.name} names no version of {artifact}"
    return found[1]
