"""What the tests tell every JVM that they start."""

# A test's Spark lives shortly: most of its cost on two cores is optimising code that runs a few times.  The cache holds
# what a long run of tests compiles: full, at its default of 48 MiB, it leaves the rest to the interpreter.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError"
