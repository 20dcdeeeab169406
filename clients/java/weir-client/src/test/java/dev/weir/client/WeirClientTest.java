package dev.weir.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpExchange;
import dev.weir.testing.Front;
import dev.weir.testing.Programs;
import dev.weir.testing.WeirNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class WeirClientTest {
  private static WeirNode node;

  @BeforeAll
  static void startNode() {
    node = WeirNode.start();
    node.apply("job", Map.of("handler", "nobody"));
    node.apply("nap", Map.of("sleep", "1h"));
  }

  @AfterAll
  static void end() {
    node.close();
  }

  private static EnqueueRequest job() {
    return EnqueueRequest.of("acme", "job");
  }

  private static String code(Runnable call) {
    return assertThrows(WeirException.class, call::run).code();
  }

  @Test
  void aKeyIsOneExecution() {
    WeirClient client = WeirClient.builder("http://127.0.0.1:1", node.url()).build();
    Enqueued first = client.enqueue(job().withIdempotencyKey("one"));
    Enqueued second = client.enqueue(job().withIdempotencyKey("one"));
    assertFalse(first.duplicate());
    assertTrue(second.duplicate());
    assertEquals(first.id(), second.id());
    assertEquals(
        "idempotency_key_reused",
        code(() -> client.enqueue(job().withIdempotencyKey("one").withParams(Map.of("n", 1)))));
  }

  @Test
  void aRequestWhoseAnswerIsLostIsRepeatedAndMakesOneExecution() throws IOException {
    AtomicInteger calls = new AtomicInteger();
    AtomicReference<String> made = new AtomicReference<>();
    try (Front front =
        new Front(
            exchange -> {
              HttpResponse<String> answer = forward(exchange);
              if (calls.incrementAndGet() == 1) {
                made.set(answer.body());
                exchange.close(); // without an answer
                return;
              }
              Front.answer(exchange, answer.statusCode(), answer.body());
            })) {
      Enqueued enqueued = front.client().build().enqueue(job());
      assertEquals(2, calls.get());
      assertTrue(made.get().contains(enqueued.id()), made.get());
      assertFalse(enqueued.duplicate());
    }
  }

  @Test
  void aRetryWhoseAnswerIsLostIsNotRepeated() throws IOException {
    AtomicInteger calls = new AtomicInteger();
    try (Front front =
        new Front(
            exchange -> {
              calls.incrementAndGet();
              exchange.close(); // without an answer
            })) {
      WeirClient client = front.client().build();
      assertEquals(WeirException.NO_ANSWER, code(() -> client.retry("x", null)));
      assertEquals(1, calls.get());
      assertEquals(WeirException.NO_ANSWER, code(() -> client.cancel("x", null)));
      assertEquals(3, calls.get());
    }
  }

  /** Answers the first request so, and the later ones with the id of a new execution. */
  private static Front refusingOnce(AtomicInteger calls, int status, String body) {
    return new Front(
        exchange -> {
          boolean isFirst = calls.incrementAndGet() == 1;
          Front.answer(exchange, isFirst ? status : 200, isFirst ? body : "{\"new_id\":\"new\"}");
        });
  }

  @Test
  void aRetryThatANodeMayHaveCarriedOutIsNotRepeated() {
    String problem = "{\"code\":\"%s\"}";
    for (String body :
        List.of(
            String.format(problem, "commit_unknown"),
            String.format(problem, "out_of_memory"),
            "<html>")) {
      AtomicInteger calls = new AtomicInteger();
      try (Front front = refusingOnce(calls, 503, body)) {
        WeirClient client = front.client().build();
        assertEquals(
            503, assertThrows(WeirException.class, () -> client.retry("x", null)).status());
        assertEquals(1, calls.get(), body);
      }
    }
    for (String code : List.of("stopped", "overloaded", "store_unreachable")) {
      AtomicInteger calls = new AtomicInteger();
      try (Front front = refusingOnce(calls, 503, String.format(problem, code))) {
        assertEquals("new", front.client().build().retry("x", null));
        assertEquals(2, calls.get(), code);
      }
    }
  }

  private static HttpResponse<String> forward(HttpExchange exchange) throws IOException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(node.url() + exchange.getRequestURI()))
            .version(HttpClient.Version.HTTP_1_1)
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofByteArray(exchange.getRequestBody().readAllBytes()))
            .build();
    try {
      return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    } catch (InterruptedException e) {
      throw new IOException(e);
    }
  }

  @Test
  void aRefusalHasCodeHintAndRequest() {
    WeirException refusal =
        assertThrows(
            WeirException.class, () -> node.client().enqueue(EnqueueRequest.of("acme", "jib")));
    assertEquals(404, refusal.status());
    assertEquals("workflow_not_found", refusal.code());
    assertTrue(refusal.hint().orElseThrow().contains("job"), refusal.getMessage());
    assertTrue(refusal.requestId().isPresent());
    assertFalse(refusal.isRetryable());
  }

  @Test
  void aBatchHasARefusalOrAnExecutionForEach() {
    List<BatchResult> results =
        node.client()
            .enqueueBatch(
                List.of(
                    job().withPriority(3),
                    EnqueueRequest.of("nobody", "job"),
                    job().withParams(Map.of("n", 1))));
    assertEquals(3, results.size());
    assertNotEquals(results.get(0).orThrow().id(), results.get(2).orThrow().id());
    assertEquals("workspace_not_found", results.get(1).refusal().code());
    assertThrows(WeirException.class, results.get(1)::orThrow);
    assertThrows(IllegalArgumentException.class, () -> node.client().enqueueBatch(List.of()));
  }

  @Test
  void actsChangeAnExecution() {
    WeirClient client = node.client();
    client.pauseWorkspace("acme", "maintenance – soon");
    String id = client.enqueue(job()).id();
    Programs.await(
        "the reason of the wait", () -> "workspace_paused".equals(client.why(id).pendingReason()));
    assertEquals(WeirException.TIMED_OUT, code(() -> client.waitFor(id, Duration.ofMillis(50))));
    client.cancel(id, "a test");
    client.resumeWorkspace("acme", null);
    assertEquals(ExecutionStatus.CANCELLED, client.waitFor(id, Programs.MOST).status());
    String again = client.retry(id, null);
    assertNotEquals(id, again);
    assertEquals("job", client.get(again).workflow());
    assertThrows(WeirException.class, () -> client.result(id));
    assertEquals("execution_not_found", code(() -> client.get(UuidV7.next())));
  }

  @Test
  void anExecutionThatWaitsShowsForWhat() {
    WeirClient client = node.client();
    String id = client.enqueue(EnqueueRequest.of("acme", "nap")).id();
    Programs.await("the park", () -> client.get(id).status() == ExecutionStatus.WAITING);
    Execution execution = client.get(id);
    assertEquals("sleep", execution.waitingFor());
    assertTrue(execution.dueAt().isAfter(execution.createdAt()));
    assertEquals("sleep", client.why(id).waitingFor());
    client.cancel(id, null);
    Execution ended = client.waitFor(id, Programs.MOST);
    assertEquals(ExecutionStatus.CANCELLED, ended.status());
    assertNull(ended.waitingFor());
    assertNull(ended.dueAt());
  }

  @Test
  void thePageOfAProxyIsAnError() throws IOException {
    AtomicReference<String> authorization = new AtomicReference<>();
    try (Front front =
        new Front(
            exchange -> {
              authorization.set(exchange.getRequestHeaders().getFirst("Authorization"));
              Front.answer(exchange, 502, "<html>");
            })) {
      WeirException refusal =
          assertThrows(WeirException.class, () -> front.client().token("secret").build().get("x"));
      assertEquals(502, refusal.status());
      assertEquals(WeirException.BAD_ANSWER, refusal.code());
      assertEquals("Bearer secret", authorization.get());
      assertFalse(refusal.toString().contains("secret"));
    }
  }

  @Test
  void digitsOfANumberAreKept() throws IOException {
    String amount = "123456789012345678901234567890.123456789012345678";
    try (Front front =
        new Front(exchange -> Front.answer(exchange, 200, "{\"amount\":" + amount + "}"))) {
      JsonNode result = front.client().build().result("x");
      assertEquals(new BigDecimal(amount), result.path("amount").decimalValue());
    }
  }

  @Test
  void anAnswerThatIsTooLargeIsAnError() throws IOException {
    try (Front front =
        new Front(
            exchange -> {
              exchange.sendResponseHeaders(200, 0);
              byte[] blanks = " ".repeat(1 << 20).getBytes(StandardCharsets.UTF_8);
              try {
                for (int i = 0; i < 40; i++) {
                  exchange.getResponseBody().write(blanks);
                }
              } catch (IOException e) {
                // The client has closed the connection.
              }
              exchange.close();
            })) {
      WeirException failure =
          assertThrows(WeirException.class, () -> front.client().build().get("x"));
      assertEquals(WeirException.NO_ANSWER, failure.code());
      assertTrue(failure.getMessage().contains("larger than"), failure.getMessage());
    }
  }

  @Test
  void anAnswerThatStopsInItsMiddleHasADeadline() throws IOException {
    CountDownLatch ended = new CountDownLatch(1);
    try (Front front =
        new Front(
            exchange -> {
              exchange.sendResponseHeaders(200, 100);
              exchange.getResponseBody().write('{');
              exchange.getResponseBody().flush();
              try {
                ended.await();
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            })) {
      WeirClient client = front.client().timeout(Duration.ofMillis(300)).build();
      assertEquals(WeirException.TIMED_OUT, code(() -> client.get("x")));
    } finally {
      ended.countDown();
    }
  }

  @Test
  void aDeadNodeIsNoAnswer() {
    WeirException failure =
        assertThrows(
            WeirException.class,
            () -> WeirClient.builder("http://127.0.0.1:1").build().enqueue(job()));
    assertEquals(WeirException.NO_ANSWER, failure.code());
    assertEquals(0, failure.status());
    assertTrue(failure.isRetryable());
    assertTrue(failure.getMessage().contains("http://127.0.0.1:1"), failure.getMessage());
  }

  @Test
  void anInterruptEndsACall() throws InterruptedException {
    WeirClient client = node.client();
    String id = client.enqueue(job()).id();
    AtomicReference<WeirException> thrown = new AtomicReference<>();
    Thread caller =
        new Thread(
            () -> {
              try {
                client.waitFor(id, Programs.MOST);
              } catch (WeirException e) {
                thrown.set(e);
              }
            });
    caller.start();
    caller.interrupt();
    caller.join(Programs.MOST.toMillis());
    assertEquals(WeirException.INTERRUPTED, thrown.get().code());
  }

  @Test
  void aBadTokenIsUnauthorizedAndEndsAWorker() {
    try (WeirNode guarded = WeirNode.start()) {
      guarded.apply("job", Map.of("handler", "job"));
      String token =
          guarded
              .run("token", "create", "java", "--role", "operate", "--all-workspaces", "-q")
              .strip();
      WeirClient stranger = WeirClient.builder(guarded.url()).token("weir_wrong").build();
      Programs.await("the first token", () -> isRefused(guarded.client()));
      assertEquals("unauthorized", code(() -> stranger.enqueue(job())));
      Worker refused = Worker.builder(stranger).handle("job", task -> null).build();
      refused.start();
      assertEquals(401, assertThrows(WeirException.class, refused::awaitEnd).status());
      WeirClient client = WeirClient.builder(guarded.url()).token(token).build();
      try (Worker worker = Worker.builder(client).handle("job", task -> 1).build()) {
        worker.start();
        String id = client.enqueue(job()).id();
        assertEquals(ExecutionStatus.COMPLETED, client.waitFor(id, Programs.MOST).status());
        assertEquals("1", client.result(id).toString());
      }
    }
  }

  private static boolean isRefused(WeirClient client) {
    try {
      client.pauseWorkspace("missing", null);
    } catch (WeirException e) {
      return e.status() == 401;
    }
    return false;
  }

  @Test
  void aCertificateIsVerified() throws Exception {
    try (WeirNode secure = WeirNode.startWithTls()) {
      secure.apply("job", Map.of("handler", "job"));
      WeirClient distrustful = secure.client();
      WeirException failure = assertThrows(WeirException.class, () -> distrustful.enqueue(job()));
      assertEquals(WeirException.NO_ANSWER, failure.code());
      WeirClient client =
          WeirClient.builder(secure.url()).sslContext(trusting(secure.certificate())).build();
      try (Worker worker = Worker.builder(client).handle("job", task -> "sealed").build()) {
        worker.start();
        String id = client.enqueue(job()).id();
        assertEquals(ExecutionStatus.COMPLETED, client.waitFor(id, Programs.MOST).status());
      }
    }
  }

  private static SSLContext trusting(Path certificate)
      throws GeneralSecurityException, IOException {
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null);
    try (InputStream file = Files.newInputStream(certificate)) {
      trusted.setCertificateEntry(
          "node", CertificateFactory.getInstance("X.509").generateCertificate(file));
    }
    TrustManagerFactory managers =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    managers.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, managers.getTrustManagers(), null);
    return context;
  }

  @Test
  void aWaitAtSeveralNodesIsAnswered() {
    WeirClient client = WeirClient.builder(node.url(), node.url(), node.url()).build();
    String id = client.enqueue(job()).id();
    Throwable cause = null;
    for (int i = 0; i < 5; i++) { // a node that stands still answers too late, but not each time
      WeirException ended =
          assertThrows(WeirException.class, () -> client.waitFor(id, Duration.ofSeconds(3)));
      assertEquals(WeirException.TIMED_OUT, ended.code());
      cause = ended.getCause();
      if (cause == null) {
        break;
      }
    }
    assertNull(cause, "a request had no answer");
  }

  @Test
  void aTokenLeavesTheMachineByHttpsAlone() {
    for (String url :
        List.of(
            "http://weir.example:7717",
            "http://10.0.0.1",
            "http://127.0.0.1.example",
            "http://[::2]:1")) {
      WeirClient.builder(url).build();
      WeirClient.Builder builder = WeirClient.builder("http://127.0.0.1:1", url).token("geheim");
      IllegalStateException refusal =
          assertThrows(IllegalStateException.class, builder::build, url);
      assertTrue(refusal.getMessage().contains("https"), refusal.getMessage());
      assertFalse(refusal.getMessage().contains("geheim"));
    }
    for (String url :
        List.of(
            "https://weir.example", "http://LOCALHOST:1", "http://127.1.2.3", "http://[::1]:1")) {
      WeirClient.builder(url).token("geheim").build();
    }
  }

  @Test
  void aClientThatFollowsRedirectsIsRefused() {
    HttpClient follows =
        HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();
    WeirClient.Builder builder = WeirClient.builder(node.url());
    assertThrows(IllegalArgumentException.class, () -> builder.httpClient(follows));
    builder.httpClient(HttpClient.newHttpClient());
  }

  @Test
  void aWrongAddressIsNotShown() {
    for (String url :
        List.of(
            "https://user:geheim@my_host:7717",
            "https://user:gehe im geheim@host",
            "https://user:geheim@host",
            "https://host?token=geheim")) {
      StringWriter text = new StringWriter();
      assertThrows(IllegalArgumentException.class, () -> WeirClient.builder(url), url)
          .printStackTrace(new PrintWriter(text));
      assertFalse(text.toString().contains("geheim"), text.toString());
    }
  }

  @Test
  void mistakesAreNamed() {
    for (String url :
        List.of(
            "127.0.0.1:7717", "ftp://127.0.0.1", "http://", "http://a:b@127.0.0.1", "http://h?x")) {
      assertThrows(IllegalArgumentException.class, () -> WeirClient.builder(url), url);
    }
    assertThrows(IllegalArgumentException.class, () -> WeirClient.builder(List.of()));
    WeirClient.Builder builder = WeirClient.builder(node.url());
    assertThrows(IllegalArgumentException.class, () -> builder.token("a\nb"));
    assertThrows(IllegalArgumentException.class, () -> builder.timeout(Duration.ZERO));
    assertThrows(
        IllegalArgumentException.class,
        () -> node.client().enqueue(job().withParams(Map.of("n", new Object()))));
  }
}
