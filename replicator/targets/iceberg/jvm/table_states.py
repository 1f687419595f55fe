"""What each merge asks of Iceberg about a table's metadata, in one question each.

py4j asks the JVM once for each call, and once more for each object that it gives back: a small merge had a hundred such
questions, and has 23.
"""

from __future__ import annotations

from typing import Any

from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.janino import instance

_CLASS = "tidemark.TableStates"
_SOURCE = """
package tidemark;

import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.util.JsonUtil;

public class TableStates {
    private static TableOperations operations(Table table) {
        return ((HasTableOperations) table).operations();
    }

    public TableMetadata refreshed(Table table, TableMetadata known) {
        TableMetadata now = operations(table).refresh();
        if (now == null) {
            throw new NoSuchTableException("The catalog does not have it");
        }
        return now.metadataFileLocation().equals(known.metadataFileLocation()) ? null : now;
    }

    public String described(TableMetadata base, int recent) {
        List snapshots = base.snapshots();
        TableMetadata described = base;
        if (snapshots.size() > 2 * recent) {
            List older = snapshots.subList(0, snapshots.size() - recent);
            described = TableMetadata.buildFrom(base).removeSnapshots(older).build();
            if (described.currentSnapshot() == null) {
                described = base;
            }
        }
        return snapshots.size() + "\\n" + TableMetadataParser.toJson(described);
    }

    public RowDelta rowDelta(Transaction transaction, Object since) {
        RowDelta update = transaction.newRowDelta();
        if (since != null) {
            update.validateFromSnapshot(((Number) since).longValue());
        }
        return update;
    }

    public TableMetadata prepared(
            Transaction transaction, SnapshotUpdate update, ExecutorService pool, String said, String kept)
            throws Exception {
        update.scanManifestsWith(pool);
        for (Iterator i = JsonUtil.mapper().readTree(said).fields(); i.hasNext();) {
            Map.Entry one = (Map.Entry) i.next();
            update.set((String) one.getKey(), ((JsonNode) one.getValue()).asText());
        }
        update.commit();
        TableMetadata made = operations(transaction.table()).current();
        deleteMerged(transaction, made.currentSnapshot());
        HashMap values = new HashMap();
        HashSet gone = new HashSet();
        for (Iterator i = JsonUtil.mapper().readTree(kept).fields(); i.hasNext();) {
            Map.Entry one = (Map.Entry) i.next();
            JsonNode value = (JsonNode) one.getValue();
            if (value.isNull()) {
                gone.add(one.getKey());
            } else {
                values.put(one.getKey(), value.asText());
            }
        }
        return TableMetadata.buildFrom(made).setProperties(values).removeProperties(gone).build();
    }

    private static void deleteMerged(Transaction transaction, Snapshot made) throws Exception {
        Method method = transaction.getClass().getDeclaredMethod("deletedFiles", new Class[0]);
        method.setAccessible(true);
        HashSet left = new HashSet((Set) method.invoke(transaction, new Object[0]));
        if (left.isEmpty()) {
            return;
        }
        FileIO io = transaction.table().io();
        left.remove(made.manifestListLocation());
        for (Iterator i = made.allManifests(io).iterator(); i.hasNext();) {
            left.remove(((ManifestFile) i.next()).path());
        }
        for (Iterator i = left.iterator(); i.hasNext();) {
            try {
                io.deleteFile((String) i.next());
            } catch (RuntimeException error) {
                // an orphan, which maintenance removes
            }
        }
    }

    public String current(TableMetadata made) {
        Snapshot one = made.currentSnapshot();
        return one.snapshotId() + " " + number(one, "deleted-data-files") + " " + number(one, "removed-delete-files");
    }

    private static String number(Snapshot one, String name) {
        Object found = one.summary().get(name);
        return found == null ? "0" : (String) found;
    }

    public void publish(Table table, TableMetadata base, TableMetadata updated) {
        operations(table).commit(base, updated);
    }
}
"""


def table_states(engine: Engine) -> Any:
    """refreshed(table, known): the metadata that the catalog names now; None where it is `known`'s.

    described(metadata, recent): the number of snapshots, and on further lines the metadata as JSON with the newest.
    rowDelta(transaction, snapshot or None), prepared(transaction, update, pool, summary, properties): an update made on
    a transaction, with these (JSON) in its summary and as the table's properties, of which null ones go; its metadata.
    Iceberg would delete at the transaction's end what it merged into other manifests; ours is published otherwise.
    current(metadata): the id of its snapshot, and how many data files and files of deletes that took away.
    publish(table, base, metadata): the compare-and-set.
    """
    return instance(engine, _CLASS, _SOURCE)
