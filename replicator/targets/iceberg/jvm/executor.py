"""A pool of Java threads for Iceberg's commits, whose tasks are waited for by their end.

Iceberg asks every 10 ms whether its tasks are done, and a commit has four or five groups of them, of a millisecond
each: more than half of the time of a small merge was sleep.  So a task here says whether it is done once it is.
"""

from __future__ import annotations

from typing import Any

from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.janino import instance

_CLASS = "tidemark.PromptExecutor"
_SOURCE = """
package tidemark;

import java.util.List;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.FutureTask;
import java.util.concurrent.RunnableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.iceberg.util.ThreadPools;

public class PromptExecutor extends AbstractExecutorService {
    private final ExecutorService pool = ThreadPools.getWorkerPool();

    static class Task extends FutureTask {
        Task(Runnable work, Object value) {
            super(work, value);
        }

        public boolean isDone() {
            try {
                get();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                return false;
            } catch (ExecutionException error) {
                return true;
            } catch (CancellationException error) {
                return true;
            }
            return true;
        }
    }

    protected RunnableFuture newTaskFor(Runnable work, Object value) {
        return new Task(work, value);
    }

    public void execute(Runnable work) {
        pool.execute(work);
    }

    public void shutdown() {}

    public List shutdownNow() {
        return new java.util.ArrayList();
    }

    public boolean isShutdown() {
        return false;
    }

    public boolean isTerminated() {
        return false;
    }

    public boolean awaitTermination(long time, TimeUnit unit) {
        return false;
    }
}
"""


def prompt_executor(engine: Engine) -> Any:
    """Iceberg's own worker threads, one for the JVM."""
    return instance(engine, _CLASS, _SOURCE)
