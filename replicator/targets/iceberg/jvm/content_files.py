"""Iceberg's data files and files of deletes, many at a time.

py4j asks the JVM once for each call, a dozen times for each file; a merge of a partitioned table has hundreds.  So
files pass as JSON, as Iceberg's `ContentFileParser` has them, and stay in Java lists of which Python knows the places.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.janino import instance

MAX_TEXT = 8 * 1024 * 1024  # characters of JSON that pass at a time, about
_CLASS = "tidemark.ContentFiles"
_SOURCE = """
package tidemark;

import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.InclusiveMetricsEvaluator;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.parquet.ParquetUtil;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.org.apache.parquet.ParquetReadOptions;
import org.apache.iceberg.shaded.org.apache.parquet.conf.PlainParquetConfiguration;
import org.apache.iceberg.shaded.org.apache.parquet.format.converter.ParquetMetadataConverter;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.ParquetMetadata;
import org.apache.iceberg.util.JsonUtil;

public class ContentFiles {
    private final ParquetMetadataConverter footers = new ParquetMetadataConverter(
        ParquetReadOptions.builder(new PlainParquetConfiguration()).build());

    public List none() {
        return new ArrayList();
    }

    public String scanned(CloseableIterable tasks, List files) throws Exception {
        StringBuilder text = new StringBuilder();
        try {
            for (Iterator i = tasks.iterator(); i.hasNext();) {
                FileScanTask task = (FileScanTask) i.next();
                PartitionSpec spec = task.spec();
                files.add(task.file());
                text.append("[").append(ContentFileParser.toJson(task.file(), spec));
                text.append(",[").append(task.file().firstRowId()).append(",");
                text.append(task.file().dataSequenceNumber()).append("]");
                for (Iterator j = task.deletes().iterator(); j.hasNext();) {
                    DeleteFile deletes = (DeleteFile) j.next();
                    files.add(deletes);
                    text.append(",").append(ContentFileParser.toJson(deletes, spec));
                }
                text.append("]\\n");
            }
        } finally {
            tasks.close();
        }
        return text.toString();
    }

    public void make(Table table, String described, List files) throws Exception {
        MetricsConfig metrics = MetricsConfig.forTable(table);
        for (Iterator i = JsonUtil.mapper().readTree(described).elements(); i.hasNext();) {
            JsonNode one = (JsonNode) i.next();
            ContentFile file = ContentFileParser.fromJson(one, table.specs());
            if (one.has("footer")) {
                byte[] bytes = Base64.getDecoder().decode(one.get("footer").asText());
                ParquetMetadata footer = footers.readParquetMetadata(
                    new ByteArrayInputStream(bytes), ParquetMetadataConverter.NO_FILTER);
                DataFiles.Builder builder = DataFiles.builder((PartitionSpec) table.specs().get(file.specId()));
                builder.copy((DataFile) file);
                builder.withMetrics(ParquetUtil.footerMetrics(footer, Collections.emptyList().stream(), metrics));
                file = builder.build();
            }
            files.add(file);
        }
    }

    public String matching(List files, String places, Schema schema, Expression condition) {
        InclusiveMetricsEvaluator evaluator = new InclusiveMetricsEvaluator(schema, condition, true);
        StringBuilder found = new StringBuilder();
        String[] all = places.split(",");
        for (int i = 0; i < all.length; i++) {
            found.append(evaluator.eval((DataFile) files.get(Integer.parseInt(all[i]))) ? "1" : "0");
        }
        return found.toString();
    }

    public void add(Object update, List files, String places) {
        String[] all = places.split(",");
        for (int i = 0; i < all.length; i++) {
            Object file = files.get(Integer.parseInt(all[i]));
            if (update instanceof RewriteFiles) {
                ((RewriteFiles) update).addFile((DataFile) file);
            } else if (file instanceof DataFile) {
                ((RowDelta) update).addRows((DataFile) file);
            } else {
                ((RowDelta) update).addDeletes((DeleteFile) file);
            }
        }
    }

    public void remove(Object update, List files, String places) {
        String[] all = places.split(",");
        for (int i = 0; i < all.length; i++) {
            Object file = files.get(Integer.parseInt(all[i]));
            if (update instanceof RewriteFiles) {
                RewriteFiles rewrite = (RewriteFiles) update;
                if (file instanceof DataFile) {
                    rewrite.deleteFile((DataFile) file);
                } else {
                    rewrite.deleteFile((DeleteFile) file);
                }
            } else if (file instanceof DataFile) {
                ((RowDelta) update).removeRows((DataFile) file);
            } else {
                ((RowDelta) update).removeDeletes((DeleteFile) file);
            }
        }
    }
}
"""
Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class JavaFile:
    """Iceberg's object of a file, at a place of a Java list."""

    files: Any = field(repr=False)
    place: int

    def get(self) -> Any:
        return self.files.get(self.place)


@dataclass(frozen=True)
class ScannedFile:
    """A data file and its deletes: Iceberg's objects, and what its JSON says.

    first_row, sequence: of a table of version 3, once Iceberg has given them.
    """

    data: tuple[JavaFile, Json]
    deletes: Sequence[tuple[JavaFile, Json]]
    first_row: int | None
    sequence: int | None


def scanned(engine: Engine, tasks: Any) -> list[ScannedFile]:
    """tasks: of a scan (`planFiles`), which are closed."""
    files = _helper(engine).none()
    lines = _helper(engine).scanned(tasks, files).splitlines()
    found, place = [], 0
    for line in lines:
        data, (first_row, sequence), *deletes = json.loads(line)
        numbered = [(JavaFile(files, place + number), one) for number, one in enumerate((data, *deletes))]
        found.append(ScannedFile(numbered[0], numbered[1:], first_row, sequence))
        place += len(numbered)
    return found


def made(engine: Engine, table: Any, described: Iterable[Json], footers: Iterable[bytes]) -> list[JavaFile]:
    """Iceberg's objects of files that were written.

    table: Iceberg's.  footers: of data files, Parquet's `FileMetaData`: their statistics are Iceberg's own reading of
    it, by the table's settings, which takes 20 ms of Hadoop's settings where it opens the file.  None of files of
    deletes.
    """
    helper = _helper(engine)
    files = helper.none()
    waiting, size, count = list[str](), 0, 0
    encoded = ({"footer": base64.b64encode(one).decode()} for one in footers)
    for one in described:
        waiting.append(json.dumps({**one, **next(encoded, {})}))
        size, count = size + len(waiting[-1]), count + 1
        if size > MAX_TEXT:
            helper.make(table, f"[{','.join(waiting)}]", files)
            waiting, size = [], 0
    if waiting:
        helper.make(table, f"[{','.join(waiting)}]", files)
    return [JavaFile(files, place) for place in range(count)]


def matching(engine: Engine, schema: Any, condition: Any, files: Sequence[JavaFile]) -> list[bool]:
    """Which data files may have rows of which the condition is true, by the statistics that these objects have.

    schema, condition: Iceberg's.
    """
    found: dict[JavaFile, bool] = {}
    for some in _by_list(files):
        answer = _helper(engine).matching(some[0].files, _places(some), schema, condition)
        found.update(zip(some, (one == "1" for one in answer), strict=True))
    return [found[one] for one in files]


def add(engine: Engine, update: Any, files: Iterable[JavaFile]) -> None:
    """To a RowDelta or RewriteFiles, data files and deletes alike."""
    for some in _by_list(files):
        _helper(engine).add(update, some[0].files, _places(some))


def remove(engine: Engine, update: Any, files: Iterable[JavaFile]) -> None:
    """As `add`."""
    for some in _by_list(files):
        _helper(engine).remove(update, some[0].files, _places(some))


def _by_list(files: Iterable[JavaFile]) -> Iterable[list[JavaFile]]:
    found: defaultdict[int, list[JavaFile]] = defaultdict(list)
    for one in files:
        found[id(one.files)].append(one)
    return found.values()


def _places(files: Sequence[JavaFile]) -> str:
    return ",".join(str(one.place) for one in files)


def _helper(engine: Engine) -> Any:
    return instance(engine, _CLASS, _SOURCE)
