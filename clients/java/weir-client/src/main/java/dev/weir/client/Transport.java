package dev.weir.client;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiConsumer;
import javax.net.ssl.SSLContext;

/**
 * Requests to nodes. Each has a deadline of its own: the timeout of {@link HttpRequest} ends with
 * the head of an answer, so a node that hangs in the body would block the caller.
 */
final class Transport {
  private static final Duration CONNECT = Duration.ofSeconds(5);

  private final List<String> urls;
  private final String token;
  private final HttpClient http;

  /** The node that answered last. */
  private volatile int preferred;

  Transport(List<String> urls, String token, HttpClient http, SSLContext sslContext) {
    this.urls = List.copyOf(urls);
    this.token = token;
    this.http = http != null ? http : defaultClient(sslContext);
  }

  private static HttpClient defaultClient(SSLContext sslContext) {
    HttpClient.Builder builder =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(CONNECT)
            .followRedirects(HttpClient.Redirect.NEVER);
    if (sslContext != null) {
      builder.sslContext(sslContext);
    }
    return builder.build();
  }

  /** Checks and tidies the address of a node. */
  static String checkUrl(String url) {
    URI parsed = null;
    try {
      parsed = new URI(url.strip());
    } catch (URISyntaxException e) {
      // The exception has the whole text, which may have a password in it.
    }
    String scheme = parsed == null ? null : parsed.getScheme();
    if (scheme == null
        || parsed.getHost() == null
        || !(scheme.equals("http") || scheme.equals("https"))) {
      throw new IllegalArgumentException(
          "the address of a node is like http://127.0.0.1:7717: a host has letters, figures, \"-\" and \".\"");
    }
    if (parsed.getRawUserInfo() != null || parsed.getQuery() != null) {
      throw new IllegalArgumentException(
          "the address of a node has no user and no query: use the token instead");
    }
    String text = parsed.toString();
    while (text.endsWith("/")) {
      text = text.substring(0, text.length() - 1);
    }
    return text;
  }

  /** Whether a token that is sent there may be read on the way. */
  static boolean isOpenToOthers(String url) {
    URI parsed = URI.create(url);
    String host = parsed.getHost().toLowerCase(Locale.ROOT);
    boolean isLocal =
        host.equals("localhost") || host.equals("[::1]") || host.matches("127(\\.[0-9]{1,3}){3}");
    return parsed.getScheme().equals("http") && !isLocal;
  }

  int nodes() {
    return urls.size();
  }

  String url(int node) {
    return urls.get(node);
  }

  /** A request that is under way. */
  final class Pending {
    private final String url;
    private final CompletableFuture<HttpResponse<byte[]>> answer;

    private Pending(String url, CompletableFuture<HttpResponse<byte[]>> answer) {
      this.url = url;
      this.answer = answer;
    }

    /** Waits for the answer, until the deadline of {@link System#nanoTime()}. */
    JsonNode await(long deadline) {
      try {
        return read(answer.get(Math.max(deadline - System.nanoTime(), 0), TimeUnit.NANOSECONDS));
      } catch (TimeoutException e) {
        answer.cancel(true);
        throw WeirException.local(
            WeirException.TIMED_OUT, url + " did not answer in time", "is the node alive?", e);
      } catch (InterruptedException e) {
        return interrupted(e);
      } catch (ExecutionException | CancellationException e) {
        throw noAnswer(e);
      }
    }

    /**
     * Calls a function once with the answer or with the failure, in a thread of the client. The
     * call does not wait. A request without an answer fails after the limit.
     */
    void whenDone(Duration limit, BiConsumer<JsonNode, WeirException> then) {
      CompletableFuture.delayedExecutor(limit.toNanos(), TimeUnit.NANOSECONDS)
          .execute(() -> answer.cancel(true));
      answer.whenComplete(
          (response, error) -> {
            JsonNode json = null;
            WeirException failure = null;
            try {
              if (error != null) {
                throw noAnswer(error);
              }
              json = read(response);
            } catch (WeirException e) {
              failure = e;
            }
            then.accept(json, failure);
          });
    }

    /** An answer that has arrived is not dropped: it may have tasks. */
    private JsonNode interrupted(InterruptedException cause) {
      Thread.currentThread().interrupt();
      if (!answer.cancel(true) && !answer.isCompletedExceptionally()) {
        return read(answer.join());
      }
      throw WeirException.local(WeirException.INTERRUPTED, "the thread was interrupted", cause);
    }

    private WeirException noAnswer(Throwable e) {
      Throwable cause = e.getCause() == null ? e : e.getCause();
      String reason =
          cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage();
      return WeirException.local(
          WeirException.NO_ANSWER,
          url + " does not answer: " + reason,
          "is the node alive, and is this its address?",
          cause);
    }

    private JsonNode read(HttpResponse<byte[]> response) {
      JsonNode body = null;
      try {
        body = Json.WIRE.readTree(response.body());
      } catch (IOException e) {
        if (response.statusCode() < 300) {
          throw WeirException.local(
              WeirException.BAD_ANSWER, "the answer of " + url + " is no JSON", e);
        }
      }
      if (response.statusCode() >= 300) {
        throw WeirException.refusal(response.statusCode(), body, retryAfter(response));
      }
      return body;
    }
  }

  private static Duration retryAfter(HttpResponse<?> response) {
    return response
        .headers()
        .firstValue("Retry-After")
        .filter(text -> text.matches("[0-9]{1,6}"))
        .map(text -> Duration.ofSeconds(Long.parseLong(text)))
        .orElse(null);
  }

  /** Writes a body. An object that Jackson cannot write is an error of the caller. */
  byte[] write(Object body) {
    try {
      return Json.WIRE.writeValueAsBytes(body);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(
          "the request cannot be written as JSON: " + e.getOriginalMessage(), e);
    }
  }

  /** Sends a request to one node. {@code body} may be null. */
  Pending send(
      int node,
      String method,
      String path,
      byte[] body,
      Map<String, String> fields,
      Duration limit) {
    String url = urls.get(node);
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(url + path))
            .version(HttpClient.Version.HTTP_1_1)
            .timeout(limit.compareTo(Duration.ofMillis(1)) < 0 ? Duration.ofMillis(1) : limit)
            .method(
                method,
                body == null
                    ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofByteArray(body));
    fields.forEach(request::setHeader);
    if (body != null) {
      request.setHeader("Content-Type", "application/json");
    }
    if (token != null) {
      request.setHeader("Authorization", "Bearer " + token);
    }
    return new Pending(
        url, http.sendAsync(request.build(), info -> new BoundedBody(BoundedBody.BYTES_MAX)));
  }

  /** One request to one node. */
  JsonNode call(int node, String path, Object body, Duration limit) {
    long deadline = System.nanoTime() + limit.toNanos();
    return send(node, "POST", path, write(body), Map.of(), limit).await(deadline);
  }

  /**
   * The request to one node after the other, until one answers. It begins with the one that
   * answered last, and asks that again at the end: a connection that a node has closed meanwhile is
   * noticed only by the next request. Each node gets its share of the time.
   */
  JsonNode callAny(
      String method, String path, Object body, Map<String, String> fields, Duration limit) {
    return callAny(method, path, body, fields, limit, Duration.ZERO, true);
  }

  /** A read that a node answers within the time, or at an event: no share is shorter. */
  JsonNode poll(String path, Duration longest, Duration limit) {
    return callAny("GET", path, null, Map.of(), limit, longest, true);
  }

  /** A request that is not repeated when a node may have carried it out. */
  JsonNode callAnyOnce(
      String method, String path, Object body, Map<String, String> fields, Duration limit) {
    return callAny(method, path, body, fields, limit, Duration.ZERO, false);
  }

  private JsonNode callAny(
      String method,
      String path,
      Object body,
      Map<String, String> fields,
      Duration limit,
      Duration leastShare,
      boolean isRepeatable) {
    long deadline = System.nanoTime() + limit.toNanos();
    byte[] text = body == null ? null : write(body);
    int first = preferred;
    List<WeirException> failures = new ArrayList<>();
    for (int attempt = 0; attempt <= urls.size(); attempt++) {
      long now = System.nanoTime();
      if (attempt > 0 && deadline - now <= 0) {
        break;
      }
      int node = (first + attempt) % urls.size();
      long fair = (deadline - now) / Math.max(urls.size() - attempt, 1);
      long share = Math.min(Math.max(fair, leastShare.toNanos()), deadline - now);
      try {
        JsonNode answer =
            send(node, method, path, text, fields, Duration.ofNanos(share)).await(now + share);
        preferred = node;
        return answer;
      } catch (WeirException e) {
        if (!e.isRetryable() || !(isRepeatable || e.hasChangedNothing())) {
          throw e;
        }
        failures.add(e);
      }
    }
    WeirException last = failures.remove(failures.size() - 1);
    failures.forEach(last::addSuppressed);
    throw last;
  }
}
