import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.ObjectOutputStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Executors;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium Engine with a consumer that counts the records of one topic and drops them.
 *
 * <p>The first line of the input has the engine's properties, separated by tabs, and three that are ours: bench.topic,
 * bench.rows, and bench.offset, the JSON of the place to begin at (none: Debezium begins by itself). Each line of the output is the number of rows so far:
 * after the first batch, and when there are bench.rows of them. It ends when its input does.
 */
public final class DebeziumReader implements DebeziumEngine.ChangeConsumer<RecordChangeEvent<SourceRecord>> {
    private final String topic;
    private final long wanted;
    private long rows;

    private DebeziumReader(String topic, long wanted) {
        this.topic = topic;
        this.wanted = wanted;
    }

    @Override
    public void handleBatch(
            List<RecordChangeEvent<SourceRecord>> batch,
            DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
            throws InterruptedException {
        long before = rows;
        for (RecordChangeEvent<SourceRecord> change : batch) {
            if (topic.equals(change.record().topic())) {
                rows++;
            }
            committer.markProcessed(change);
        }
        committer.markBatchFinished();
        if (before < rows && (before == 0 || rows >= wanted)) {
            System.out.println(rows);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Properties asked = new Properties();
        asked.load(new StringReader(input.readLine().replace('\t', '\n')));
        if (asked.containsKey("bench.offset")) {
            begin(asked);
        }
        DebeziumReader reader =
                new DebeziumReader(asked.getProperty("bench.topic"), Long.parseLong(asked.getProperty("bench.rows")));
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                .using(asked)
                .notifying(reader)
                .using((success, message, error) -> {
                    System.err.println(message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                    System.exit(success ? 0 : 1);
                })
                .build();
        Executors.newSingleThreadExecutor().execute(engine);
        while (input.read() != -1) {}
        Runtime.getRuntime().halt(0);
    }

    /** The engine goes on where its file says that it stopped: the layout is that of Kafka's FileOffsetBackingStore. */
    private static void begin(Properties asked) throws IOException {
        String key = String.format(
                "[\"%s\",{\"server\":\"%s\"}]", asked.getProperty("name"), asked.getProperty("topic.prefix"));
        Map<byte[], byte[]> offsets = new HashMap<>();
        offsets.put(
                key.getBytes(StandardCharsets.UTF_8),
                asked.getProperty("bench.offset").getBytes(StandardCharsets.UTF_8));
        Path file = Path.of(asked.getProperty("offset.storage.file.filename"));
        try (ObjectOutputStream output = new ObjectOutputStream(Files.newOutputStream(file))) {
            output.writeObject(offsets);
        }
    }
}
