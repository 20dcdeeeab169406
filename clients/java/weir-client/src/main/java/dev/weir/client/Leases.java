package dev.weir.client;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * Renews the leases of the tasks that a worker has, and ends a run whose lease is over.
 *
 * <p>One thread does both, and it never waits: the answers of nodes arrive in threads of the HTTP
 * client. So a node that hangs delays neither the other heartbeats nor the end of a run. Renewals
 * begin a quarter of a lease after the claim, four in each lease.
 */
final class Leases {
  private static final Logger LOG = System.getLogger(Worker.class.getName());
  private static final Duration PAUSE_MAX = Duration.ofSeconds(1);

  /** From a line or a report of a task to the heartbeat that carries it. */
  private static final Duration LOG_DELAY = Duration.ofSeconds(1);

  /**
   * Further lines wait for the next heartbeat. As JSON they have at most six times as many bytes.
   */
  private static final int LOG_BYTES_MAX = 512 << 10;

  private final TaskCalls calls;
  private final Map<String, TaskRun> running = new ConcurrentHashMap<>();
  private final ScheduledThreadPoolExecutor timer;

  /** The nodes that have not answered their last heartbeat. Each outage is logged once. */
  private final Set<Integer> silent = ConcurrentHashMap.newKeySet();

  /** The next heartbeat; null when no task runs. Guarded by this. */
  private ScheduledFuture<?> next;

  Leases(TaskCalls calls, String threadName) {
    this.calls = calls;
    this.timer =
        new ScheduledThreadPoolExecutor(
            1,
            work -> {
              Thread thread = new Thread(work, threadName);
              thread.setDaemon(true);
              return thread;
            });
    timer.setRemoveOnCancelPolicy(true);
  }

  void add(TaskRun run) {
    running.put(run.task.id(), run);
    run.task.lines().onLines(() -> beatWithin(LOG_DELAY), () -> beatWithin(Duration.ZERO));
    run.task.reported().onReport(() -> beatWithin(LOG_DELAY));
    watch(run);
    beatWithin(run.lease.dividedBy(4));
  }

  void remove(TaskRun run) {
    running.remove(run.task.id(), run);
    run.cancelTimer();
  }

  int size() {
    return running.size();
  }

  /** The tasks that run. */
  Set<String> tasks() {
    return Set.copyOf(running.keySet());
  }

  /** Ends all runs, without a report. */
  void loseAll() {
    running.values().forEach(TaskRun::lose);
  }

  void close() {
    timer.shutdownNow();
  }

  /** A renewal moves the end, so the timer sets itself again. */
  private void watch(TaskRun run) {
    long left = Math.max(run.leaseLeft(), 0);
    run.setTimer(
        timer.schedule(
            () -> {
              if (run.leaseLeft() > 0) {
                watch(run);
              } else if (running.get(run.task.id()) == run) {
                LOG.log(Level.WARNING, "weir: the lease of task {0} is over", run.task.id());
                run.lose();
              }
            },
            left,
            TimeUnit.NANOSECONDS));
  }

  private synchronized void beatWithin(Duration delay) {
    if (timer.isShutdown()) {
      return;
    }
    if (next != null) {
      if (next.getDelay(TimeUnit.NANOSECONDS) <= delay.toNanos()) {
        return;
      }
      next.cancel(false);
    }
    next = timer.schedule(this::beat, delay.toNanos(), TimeUnit.NANOSECONDS);
  }

  private void beat() {
    synchronized (this) {
      next = null;
    }
    List<TaskRun> runs = new ArrayList<>(running.values());
    runs.removeIf(TaskRun::isLost);
    if (runs.isEmpty()) {
      return; // add() begins again
    }
    Duration lease = runs.stream().map(run -> run.lease).min(Duration::compareTo).orElseThrow();
    beatWithin(lease.dividedBy(4));
    runs.stream()
        .collect(Collectors.groupingBy(TaskRun::node))
        .forEach((node, ofNode) -> beatAt(node, ofNode, lease));
  }

  private void beatAt(int node, List<TaskRun> runs, Duration lease) {
    long sent = System.nanoTime();
    Map<TaskRun, Carried> carried = new HashMap<>();
    calls.heartbeat(
        node,
        items(runs, carried),
        lease.dividedBy(3),
        (verdicts, failure) -> {
          if (failure == null) {
            silent.remove(node);
          } else {
            if (silent.add(node)) {
              LOG.log(
                  Level.WARNING,
                  "weir: no heartbeat at {0}: {1}",
                  calls.url(node),
                  failure.getMessage());
            }
            calls.leave(node);
          }
          if (!takeVerdicts(node, runs, verdicts, sent, carried)) {
            // Another node may have taken the executions over. It gets only those whose handlers it
            // knows.
            calls.announce((node + 1) % calls.nodes(), lease.dividedBy(3));
            beatWithin(Durations.shorter(lease.dividedBy(3), PAUSE_MAX).dividedBy(4));
          }
        });
  }

  /** The place behind the lines and the number of the report that a heartbeat has of a task. */
  private record Carried(long logEnd, long report) {
    static final Carried NOTHING = new Carried(0, 0);
  }

  /** The items of a heartbeat, with lines and reports; {@code carried} gets their places. */
  private static List<ObjectNode> items(List<TaskRun> runs, Map<TaskRun, Carried> carried) {
    List<ObjectNode> items = new ArrayList<>();
    long bytes = 0;
    for (TaskRun run : runs) {
      ObjectNode item = run.task.item();
      long end = 0;
      if (bytes < LOG_BYTES_MAX) {
        end = run.task.lines().putInto(item, false);
        bytes += end - item.path("log_at").asLong(end);
      }
      carried.put(run, new Carried(end, run.task.reported().putInto(item)));
      items.add(item);
    }
    return items;
  }

  private static void renew(TaskRun run, long sent, Carried carried) {
    run.renew(sent + run.lease.toNanos());
    run.task.lines().accepted(carried.logEnd());
    run.task.reported().accepted(carried.report());
  }

  /** Returns whether the node has all the tasks that still run. */
  private boolean takeVerdicts(
      int node,
      List<TaskRun> runs,
      Map<String, String> verdicts,
      long sent,
      Map<TaskRun, Carried> carried) {
    boolean all = true;
    for (TaskRun run : runs) {
      if (running.get(run.task.id()) != run) {
        continue; // it has ended meanwhile
      }
      switch (verdicts.getOrDefault(run.task.id(), TaskCalls.TASK_UNKNOWN)) {
        case TaskCalls.ACCEPTED -> renew(run, sent, carried.getOrDefault(run, Carried.NOTHING));
        case TaskCalls.CANCELLED -> {
          renew(run, sent, carried.getOrDefault(run, Carried.NOTHING));
          run.task.stop(StopCause.CANCELLED);
        }
        case TaskCalls.TASK_LOST -> run.lose();
        default -> {
          all = false;
          run.task.reported().forgetNode();
          run.moveOn(node, calls.nodes());
        }
      }
    }
    return all;
  }
}
