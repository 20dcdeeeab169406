package dev.weir.client;

import java.time.Duration;
import java.util.concurrent.ScheduledFuture;

/** A task that a worker has, and its lease. Any thread may call. */
final class TaskRun {
  final Task task;
  final Duration lease;
  private int node;
  private long leaseEnds;
  private boolean lost;
  private ScheduledFuture<?> timer;

  /** {@code leaseEnds}: by {@link System#nanoTime()}. {@code node}: has given the task. */
  TaskRun(Task task, int node, Duration lease, long leaseEnds) {
    this.task = task;
    this.node = node;
    this.lease = lease;
    this.leaseEnds = leaseEnds;
  }

  /** The node that the next report goes to. */
  synchronized int node() {
    return node;
  }

  /**
   * Goes to the node behind one that does not have the task, unless another report has done that
   * already.
   */
  synchronized void moveOn(int from, int nodes) {
    if (node == from) {
      node = (from + 1) % nodes;
    }
  }

  /** Nanoseconds until the end of the lease; below 1 when it is over. */
  synchronized long leaseLeft() {
    return leaseEnds - System.nanoTime();
  }

  /** A lease that is over is not renewed: another worker may run the step already. */
  synchronized void renew(long ends) {
    if (!isLost() && ends - leaseEnds > 0) {
      leaseEnds = ends;
    }
  }

  /** Whether the result must not be reported. */
  synchronized boolean isLost() {
    return lost || leaseLeft() <= 0;
  }

  void lose() {
    synchronized (this) {
      lost = true;
    }
    task.stop(StopCause.LOST);
  }

  synchronized void setTimer(ScheduledFuture<?> future) {
    timer = future;
  }

  synchronized void cancelTimer() {
    if (timer != null) {
      timer.cancel(false);
    }
  }
}
