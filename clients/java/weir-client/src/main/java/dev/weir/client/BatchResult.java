package dev.weir.client;

/**
 * The answer to one request of a batch. One of the two is null.
 *
 * @param enqueued the execution
 * @param refusal why the request was refused
 */
public record BatchResult(Enqueued enqueued, WeirException refusal) {

  /**
   * Returns the execution, or throws the refusal.
   *
   * @return the execution
   */
  public Enqueued orThrow() {
    if (refusal != null) {
      throw refusal;
    }
    return enqueued;
  }
}
