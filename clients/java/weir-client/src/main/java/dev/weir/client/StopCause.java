package dev.weir.client;

/** Why the run of a task is to stop. */
public enum StopCause {
  /**
   * The result is wanted no more: the execution was cancelled, or the timeout of the step is over.
   */
  CANCELLED,
  /**
   * The worker could not renew its lease, another worker has the task, or the time for the stop of
   * the worker is over. What the handler returns is dropped.
   */
  LOST
}
