package dev.weir.client;

/** The states of an execution. */
public enum ExecutionStatus {
  /** It waits. {@link WeirClient#why} names the reason. */
  PENDING,
  /** A node has it. */
  CLAIMED,
  /** It runs. */
  DISPATCHED,
  /** It waits without a slot: a step of it sleeps, or waits for its next attempt. */
  WAITING,
  /** It has ended with a result. */
  COMPLETED,
  /** It has ended with an error. */
  FAILED,
  /** It was cancelled. */
  CANCELLED;

  /**
   * Returns whether the state is final.
   *
   * @return whether the execution has ended
   */
  public boolean isFinal() {
    return this == COMPLETED || this == FAILED || this == CANCELLED;
  }
}
