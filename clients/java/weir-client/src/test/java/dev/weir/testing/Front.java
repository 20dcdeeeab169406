package dev.weir.testing;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import dev.weir.client.WeirClient;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A server in the place of a node, which does what no node does. */
public final class Front implements AutoCloseable {
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final HttpServer server;

  /** Starts a server. */
  public Front(HttpHandler handler) {
    try {
      server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    server.setExecutor(threads);
    server.createContext("/", handler);
    server.start();
  }

  /** The address of the server. */
  public String url() {
    return "http://127.0.0.1:" + server.getAddress().getPort();
  }

  /** Begins a client of the server. */
  public WeirClient.Builder client() {
    return WeirClient.builder(url());
  }

  /** Answers a request. */
  public static void answer(HttpExchange exchange, int status, String body) throws IOException {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(status, bytes.length);
    exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  /** Answers a request with a problem. */
  public static void refuse(HttpExchange exchange, int status, String code) throws IOException {
    answer(exchange, status, "{\"status\":" + status + ",\"code\":\"" + code + "\"}");
  }

  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
  }
}
