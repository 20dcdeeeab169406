package dev.weir.spring;

import dev.weir.client.Worker;
import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties of weir.
 *
 * @param url addresses of nodes, such as {@code http://127.0.0.1:7717}
 * @param token the token; a worker needs one with the role operate and all workspaces
 * @param timeout the deadline of a call
 * @param sslBundle the bundle of Spring Boot with the certificates to trust, for addresses with
 *     https
 * @param worker the worker
 * @param jdbc the enqueue in a transaction
 */
@ConfigurationProperties("weir")
public record WeirProperties(
    List<String> url,
    String token,
    @DefaultValue("10s") Duration timeout,
    String sslBundle,
    @DefaultValue WorkerProperties worker,
    @DefaultValue JdbcProperties jdbc) {

  /** Shows no token and no address: an address that is refused may have a password in it. */
  @Override
  public String toString() {
    return "WeirProperties[timeout="
        + timeout
        + ", sslBundle="
        + sslBundle
        + ", worker="
        + worker
        + ", jdbc="
        + jdbc
        + "]";
  }

  /**
   * The properties of the worker.
   *
   * @param enabled whether this application runs handlers
   * @param slots the number of tasks at once
   * @param name the name of the worker; the default has the host, the process and a random number
   * @param executorGroup the executor group, where a process has several nodes
   * @param stopTimeout the time that handlers have when the application stops
   */
  public record WorkerProperties(
      @DefaultValue("true") boolean enabled,
      @DefaultValue("10") int slots,
      String name,
      String executorGroup,
      @DefaultValue("25s") Duration stopTimeout) {

    void applyTo(Worker.Builder builder) {
      builder.slots(slots).executorGroup(executorGroup);
      if (name != null) {
        builder.name(name);
      }
    }
  }

  /**
   * The properties of the enqueue in a transaction.
   *
   * @param schema the schema of the store in PostgreSQL
   */
  public record JdbcProperties(@DefaultValue("weir") String schema) {}
}
