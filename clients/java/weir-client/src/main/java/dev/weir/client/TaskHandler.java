package dev.weir.client;

/** Runs the tasks of a handler: the NAME of {@code handler: NAME} in a step. */
@FunctionalInterface
public interface TaskHandler {
  /**
   * Runs a task. The thread is interrupted when the task was cancelled or lost; the handler should
   * then return soon.
   *
   * @param task the task
   * @return the output, which Jackson writes as JSON of at most 1 MiB; or null
   * @throws Exception is retried by the policy of the step; a {@link TaskFailure} decides about
   *     that itself
   */
  Object handle(Task task) throws Exception;
}
