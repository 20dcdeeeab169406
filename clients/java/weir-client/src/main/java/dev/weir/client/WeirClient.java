package dev.weir.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import javax.net.ssl.SSLContext;

/**
 * Calls the nodes at some addresses. The nodes share one store, so a call goes to the first one
 * that answers.
 *
 * <pre>{@code
 * WeirClient client = WeirClient.builder("http://127.0.0.1:7717").token(token).build();
 * Enqueued sent = client.enqueue(EnqueueRequest.of("acme", "send-mail", Map.of("to", "ada")));
 * Execution ended = client.waitFor(sent.id(), Duration.ofMinutes(1));
 * }</pre>
 *
 * <p>Any thread may call. A call blocks until its answer, the deadline or an interrupt of the
 * thread. A refusal, and a deadline without an answer, is a {@link WeirException}. A client holds
 * nothing that must be closed.
 */
public final class WeirClient {
  /** The most requests of a batch. */
  public static final int BATCH_MAX = 1000;

  /** One request waits at most so long for the end of an execution. */
  private static final Duration WAIT_MAX = Duration.ofSeconds(30);

  /** With several nodes each gets a part of that, unless the part would be shorter than this. */
  private static final Duration WAIT_PART_MIN = Duration.ofSeconds(1);

  private static final Duration WAIT_GRACE = Duration.ofSeconds(2);
  private static final Duration PAUSE_FIRST = Duration.ofMillis(50);
  private static final Duration PAUSE_MAX = Duration.ofSeconds(1);

  private final Transport transport;
  private final ObjectMapper mapper;
  private final Duration timeout;

  private WeirClient(Builder builder) {
    this.transport = new Transport(builder.urls, builder.token, builder.http, builder.sslContext);
    this.mapper = builder.mapper;
    this.timeout = builder.timeout;
  }

  /**
   * Begins a client.
   *
   * @param urls the addresses of nodes, such as {@code http://127.0.0.1:7717}
   * @return its builder
   */
  public static Builder builder(String... urls) {
    return builder(List.of(urls));
  }

  /**
   * Begins a client.
   *
   * @param urls the addresses of nodes
   * @return its builder
   */
  public static Builder builder(List<String> urls) {
    return new Builder(urls);
  }

  /** Makes clients. */
  public static final class Builder {
    private final List<String> urls;
    private String token;
    private Duration timeout = Duration.ofSeconds(10);
    private HttpClient http;
    private SSLContext sslContext;
    private ObjectMapper mapper = Json.DEFAULT;

    private Builder(List<String> urls) {
      if (urls.isEmpty()) {
        throw new IllegalArgumentException("a client needs the address of a node");
      }
      this.urls = urls.stream().map(Transport::checkUrl).toList();
    }

    /**
     * Sets the token. Without one, only a node whose store has no tokens, on this machine, answers.
     * It leaves this machine by {@code https} alone.
     *
     * @param value the token, or null for none
     * @return this builder
     */
    public Builder token(String value) {
      if (value != null && !value.matches("[\\x21-\\x7e]+")) {
        throw new IllegalArgumentException(
            "a token has no blanks, no line ends and no other letters than ASCII");
      }
      this.token = value;
      return this;
    }

    /**
     * Sets the deadline of each call, over all nodes that it tries. The default is 10 seconds.
     *
     * @param value the time
     * @return this builder
     */
    public Builder timeout(Duration value) {
      if (value.isNegative() || value.isZero()) {
        throw new IllegalArgumentException("the timeout is a time above 0, not " + value);
      }
      this.timeout = value;
      return this;
    }

    /**
     * Sets the certificates that are trusted, for addresses with {@code https}. The default trusts
     * those that the JVM trusts.
     *
     * @param value the context
     * @return this builder
     */
    public Builder sslContext(SSLContext value) {
      this.sslContext = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Sets what makes the requests: with a proxy or an executor of your own. It has its own {@code
     * SSLContext}, and follows no redirect: a node has none, and the token would go along.
     *
     * @param value the client of the JDK
     * @return this builder
     */
    public Builder httpClient(HttpClient value) {
      if (value.followRedirects() != HttpClient.Redirect.NEVER) {
        throw new IllegalArgumentException(
            "a client that follows redirects may send the token anywhere: set Redirect.NEVER");
      }
      this.http = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Sets what writes params and outputs and reads inputs.
     *
     * @param value a mapper
     * @return this builder
     */
    public Builder objectMapper(ObjectMapper value) {
      this.mapper = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Makes the client. It connects with its first call.
     *
     * @return the client
     * @throws IllegalStateException when the token would go to another machine by {@code http}
     */
    public WeirClient build() {
      for (String url : urls) {
        if (token != null && Transport.isOpenToOthers(url)) {
          throw new IllegalStateException(
              "a token is not sent over http:// to another machine: give "
                  + url
                  + " the scheme https://");
        }
      }
      return new WeirClient(this);
    }
  }

  Transport transport() {
    return transport;
  }

  ObjectMapper mapper() {
    return mapper;
  }

  Duration timeout() {
    return timeout;
  }

  private static String encode(String segment) {
    return URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private static String executionPath(String id, String rest) {
    return "/v1/executions/" + encode(id) + rest;
  }

  private JsonNode read(String path) {
    return transport.callAny("GET", path, null, Map.of(), timeout);
  }

  private void act(String path, String reason) {
    transport.callAny("POST", path, null, reasonField(reason), timeout);
  }

  private static Map<String, String> reasonField(String reason) {
    return reason == null ? Map.of() : Map.of("Weir-Reason", asField(reason));
  }

  /** A field of the head has no line ends and no other letters than ASCII. */
  private static String asField(String reason) {
    return reason.replaceAll("[^\\x20-\\x7e]", "?");
  }

  /**
   * Enqueues an execution. The request has an id of its own, so the client repeats it at another
   * node when an answer is lost, and there is one execution all the same.
   *
   * @param request the request
   * @return the execution
   */
  public Enqueued enqueue(EnqueueRequest request) {
    EnqueueRequest sent = toSend(request);
    String path = "/v1/workspaces/" + encode(request.workspace()) + "/executions";
    return enqueued(request, sent, transport.callAny("POST", path, sent, Map.of(), timeout));
  }

  private EnqueueRequest toSend(EnqueueRequest request) {
    EnqueueRequest sent = request.id() != null ? request : request.withId(UuidV7.next());
    return sent.params() == null
        ? sent
        : sent.withParams(mapper.<JsonNode>valueToTree(sent.params()));
  }

  /**
   * The execution of an id that was made here is new, also when the node has seen the request
   * before: its answer was lost.
   */
  private static Enqueued enqueued(EnqueueRequest request, EnqueueRequest sent, JsonNode answer) {
    String id = answer.path("id").textValue();
    if (id == null) {
      throw WeirException.local(
          WeirException.BAD_ANSWER, "the answer has no id of an execution", null);
    }
    boolean isOwn = request.id() == null && id.equals(sent.id());
    return new Enqueued(id, answer.path("duplicate").booleanValue() && !isOwn);
  }

  /**
   * Enqueues up to {@link #BATCH_MAX} executions in one transaction. A refused request changes no
   * other one.
   *
   * @param requests the requests, of any workspaces
   * @return the result of each, in their order
   */
  public List<BatchResult> enqueueBatch(List<EnqueueRequest> requests) {
    if (requests.isEmpty() || requests.size() > BATCH_MAX) {
      throw new IllegalArgumentException(
          "a batch has 1 to " + BATCH_MAX + " requests, not " + requests.size());
    }
    List<EnqueueRequest> sent = requests.stream().map(this::toSend).toList();
    JsonNode answers =
        transport
            .callAny("POST", "/v1/executions:batch", Map.of("items", sent), Map.of(), timeout)
            .path("items");
    if (answers.size() != sent.size()) {
      throw WeirException.local(
          WeirException.BAD_ANSWER, "the answer has " + answers.size() + " results", null);
    }
    List<BatchResult> results = new ArrayList<>();
    for (int i = 0; i < sent.size(); i++) {
      JsonNode answer = answers.get(i);
      results.add(
          answer.has("id")
              ? new BatchResult(enqueued(requests.get(i), sent.get(i), answer), null)
              : new BatchResult(
                  null, WeirException.refusal(answer.path("status").intValue(), answer, null)));
    }
    return List.copyOf(results);
  }

  /**
   * Reads an execution.
   *
   * @param id its id
   * @return the execution
   */
  public Execution get(String id) {
    return Execution.of(read(executionPath(id, "")));
  }

  /**
   * Waits for the end of an execution, by requests that the node answers at the end. It outlasts
   * nodes that are down.
   *
   * @param id its id
   * @param limit the longest time to wait; the call ends at most two seconds later
   * @return the execution, which has ended
   * @throws WeirException {@link WeirException#TIMED_OUT} when it has not ended in time
   */
  public Execution waitFor(String id, Duration limit) {
    long deadline = System.nanoTime() + limit.toNanos();
    Duration pause = PAUSE_FIRST;
    while (true) {
      Duration left = Duration.ofNanos(Math.max(deadline - System.nanoTime(), 0));
      Duration total = Durations.shorter(left, WAIT_MAX);
      // A node that hangs leaves time for the others.
      Duration part = Durations.longer(total.dividedBy(transport.nodes()), WAIT_PART_MIN);
      Duration wait = Durations.shorter(total, part);
      String path = executionPath(id, "?wait=" + wait.toMillis() + "ms");
      WeirException failure = null;
      try {
        Execution execution =
            Execution.of(transport.poll(path, wait.plus(WAIT_GRACE), total.plus(WAIT_GRACE)));
        if (execution.hasEnded()) {
          return execution;
        }
      } catch (WeirException e) {
        if (!e.isRetryable()) {
          throw e;
        }
        failure = e;
      }
      if (deadline - System.nanoTime() <= 0) {
        throw WeirException.local(
            WeirException.TIMED_OUT,
            "execution " + id + " has not ended within " + limit,
            "why(id) names the reason",
            failure);
      }
      if (failure != null) {
        pause(pause);
        pause = Durations.shorter(pause.multipliedBy(2), PAUSE_MAX);
      }
    }
  }

  private static void pause(Duration duration) {
    try {
      Thread.sleep(duration.toMillis());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw WeirException.local(WeirException.INTERRUPTED, "the thread was interrupted", e);
    }
  }

  /**
   * Reads the result of a completed execution.
   *
   * @param id its id
   * @return the result, JSON
   */
  public JsonNode result(String id) {
    return read(executionPath(id, "/result"));
  }

  /**
   * Reads why an execution waits.
   *
   * @param id its id
   * @return the reason, with the numbers
   */
  public Why why(String id) {
    return Why.of(read(executionPath(id, "/why")));
  }

  /**
   * Cancels an execution: a waiting one never starts, a running one is stopped soon.
   *
   * @param id its id
   * @param reason for the record, or null
   */
  public void cancel(String id, String reason) {
    act(executionPath(id, "/cancel"), reason);
  }

  /**
   * Enqueues a failed or cancelled execution again. When the answer is lost, the call is not
   * repeated: each one makes an execution.
   *
   * @param id its id
   * @param reason for the record, or null
   * @return the id of the new execution
   */
  public String retry(String id, String reason) {
    JsonNode answer =
        transport.callAnyOnce(
            "POST", executionPath(id, "/retry"), null, reasonField(reason), timeout);
    String made = answer.path("new_id").textValue();
    if (made == null) {
      throw WeirException.local(WeirException.BAD_ANSWER, "the answer has no new_id", null);
    }
    return made;
  }

  /**
   * Starts no more executions of a workspace. Those that run go on.
   *
   * @param workspace its name
   * @param reason for the record, or null
   */
  public void pauseWorkspace(String workspace, String reason) {
    act("/v1/workspaces/" + encode(workspace) + "/pause", reason);
  }

  /**
   * Starts executions of a workspace again.
   *
   * @param workspace its name
   * @param reason for the record, or null
   */
  public void resumeWorkspace(String workspace, String reason) {
    act("/v1/workspaces/" + encode(workspace) + "/resume", reason);
  }
}
