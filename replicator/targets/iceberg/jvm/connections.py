"""The connections to the JVM, without Nagle's algorithm.

Java writes an answer in pieces of 8 KiB.  With that algorithm the last piece waits until the one before is
acknowledged, which the kernel delays by 40 ms.  Each merge reads a table's metadata so: in 44 ms instead of one.
"""

from __future__ import annotations

from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.janino import instance

_CLASS = "tidemark.NoDelay"
_SOURCE = """
package tidemark;

import py4j.GatewayServerListener;
import py4j.Py4JServerConnection;

public class NoDelay implements GatewayServerListener {
    public void connectionStarted(Py4JServerConnection connection) {
        try {
            connection.getSocket().setTcpNoDelay(true);
        } catch (java.net.SocketException error) {
            // it is closed already
        }
    }

    public void connectionStopped(Py4JServerConnection connection) {}
    public void connectionError(Exception error) {}
    public void serverError(Exception error) {}
    public void serverPostShutdown() {}
    public void serverPreShutdown() {}
    public void serverStarted() {}
    public void serverStopped() {}
}
"""


def answer_at_once(engine: Engine) -> None:
    """On connections that begin from now on: each thread's but this one's."""
    engine.gateway.java_gateway_server.addListener(instance(engine, _CLASS, _SOURCE))
